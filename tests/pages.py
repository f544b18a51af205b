"""Pages as a browser reads them, whatever lines their templates are broken into."""

import re

AS_WRITTEN = re.compile(r"(<(?:pre|script|textarea)\b.*?</(?:pre|script|textarea)>)", re.DOTALL)
BLOCKS = (
    "article|aside|button|caption|dd|details|div|dl|dt|figure|footer|form|h[1-6]|header|label|legend|li|main|nav|ol|"
    "option|p|section|select|summary|table|tbody|td|tfoot|th|thead|tr|ul"
)
AT_THE_EDGE = re.compile(rf"(</?(?:{BLOCKS})\b[^>]*>) | (?=</?(?:{BLOCKS})\b)")


def read_page(html: str) -> str:
    """The page with one blank for each run of white space, and none at the edges of a block; code stays as it is."""
    parts = AS_WRITTEN.split(html)
    parts[::2] = [AT_THE_EDGE.sub(r"\1", re.sub(r"\s+", " ", part)) for part in parts[::2]]
    return "".join(parts)
