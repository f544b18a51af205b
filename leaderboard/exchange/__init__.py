"""The whole board as a package: Parquet tables with a datapackage.json, and an empty board from such a package."""

from leaderboard.exchange.export import Exported, write_folder, write_zip
from leaderboard.exchange.load import import_package
from scoring.refusals import Refused

__all__ = ["Exported", "Refused", "import_package", "write_folder", "write_zip"]
