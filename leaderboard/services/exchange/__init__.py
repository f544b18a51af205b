"""The whole board as a package: Parquet tables with a datapackage.json, and an empty board from such a package."""

from leaderboard.services.exchange.export import CannotExport, Exported, write_folder, write_zip
from leaderboard.services.exchange.load import import_package
from leaderboard.services.exchange.package import PackageRefused

__all__ = ["CannotExport", "Exported", "PackageRefused", "import_package", "write_folder", "write_zip"]
