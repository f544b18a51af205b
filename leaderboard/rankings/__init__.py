"""Which ranking is meant, its rows, where a model stands, what changed between two versions, and the exports.

Pages, the API, commands, badges, letters, frames and feeds all ask here, so that they give the same answer.
"""
