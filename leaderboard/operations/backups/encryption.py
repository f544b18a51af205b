"""Who can read a backup: everybody who gets hold of it, or the holder of a key of age or GPG.

The board knows only whom it encrypts for. Keys that decrypt are given to the commands that restore.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyrage

from scoring.refusals import Refused

AGE, GPG = "age", "gpg"
SECRET_LINE = "AGE-SECRET-KEY-"  # noqa: S105 (how such a line begins)


class WrongKey(Refused):
    """No key at hand decrypts the set."""


class Cipher(Protocol):
    """Encrypts and decrypts the objects of a set. name: empty where it leaves them as they are."""

    @property
    def name(self) -> str: ...

    @property
    def recipients(self) -> tuple[str, ...]: ...

    def encrypt(self, content: bytes) -> bytes: ...

    def decrypt(self, content: bytes) -> bytes: ...


@dataclass(frozen=True)
class Plain:
    """No encryption."""

    name: str = ""
    recipients: tuple[str, ...] = ()

    def encrypt(self, content: bytes) -> bytes:
        return content

    def decrypt(self, content: bytes) -> bytes:
        return content


@dataclass(frozen=True)
class Age:
    """Encryption by age. identities: lines of AGE-SECRET-KEY-..., to decrypt."""

    recipients: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    name: str = AGE

    def encrypt(self, content: bytes) -> bytes:
        keys = [pyrage.x25519.Recipient.from_str(recipient) for recipient in self.recipients]
        return bytes(pyrage.encrypt(content, keys))

    def decrypt(self, content: bytes) -> bytes:
        if not self.identities:
            raise WrongKey("the set is encrypted by age: give the file with its key, as in --identity key.txt")
        keys = [pyrage.x25519.Identity.from_str(identity) for identity in self.identities]
        try:
            return bytes(pyrage.decrypt(content, keys))
        except pyrage.DecryptError as error:
            raise WrongKey(f"no key of --identity decrypts the set ({error}): give the one of its recipient") from error


@dataclass(frozen=True)
class Gpg:
    """Encryption by the command gpg, with the keys of this user's keyring."""

    recipients: tuple[str, ...] = ()
    name: str = GPG

    def encrypt(self, content: bytes) -> bytes:
        options = [option for recipient in self.recipients for option in ("--recipient", recipient)]
        command = ["--trust-model", "always", "--compress-algo", "none", "--encrypt", *options]
        return _run_gpg(command, content, f"BACKUP_RECIPIENT = {', '.join(self.recipients)}: gpg cannot encrypt for it")

    def decrypt(self, content: bytes) -> bytes:
        return _run_gpg(["--decrypt"], content, "no key in the keyring of this user decrypts the set: import it first")


def _run_gpg(arguments: Sequence[str], content: bytes, refusal: str) -> bytes:
    command = ["gpg", "--batch", "--quiet", "--no-tty", *arguments]
    try:
        process = subprocess.run(command, input=content, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError as error:
        raise Refused("gpg is not installed, and the backup is encrypted by it: install gnupg") from error
    if process.returncode:
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        raise WrongKey(f"{refusal} ({lines[-1] if lines else f'status {process.returncode}'})")
    return process.stdout


def cipher_for(recipients: Sequence[str]) -> Cipher:
    """The cipher that encrypts for `recipients`: public keys of age, or names of keys in GPG's keyring; none: plain.

    Raises Refused where one is no key, or where they are of both kinds.
    """
    kinds = {recipient.startswith("age1") for recipient in recipients}
    if not kinds:
        return Plain()
    if len(kinds) > 1:
        raise Refused("the recipients are keys of age and of GPG: name keys of one of them")
    if kinds == {False}:
        gpg = Gpg(tuple(recipients))
        gpg.encrypt(b"")  # refused now, not after the database was read
        return gpg
    for recipient in recipients:
        try:
            pyrage.x25519.Recipient.from_str(recipient)
        except pyrage.RecipientError as error:
            raise Refused(f"{recipient}: no public key of age ({error}); one is `age1` and 58 characters") from error
    return Age(tuple(recipients))


def cipher_called(name: str, identity: Path | None) -> Cipher:
    """The cipher that decrypts a set which says that it was encrypted by `name`. identity: a file of keys of age."""
    if name == AGE:
        return Age(identities=_read_identities(identity) if identity else ())
    if name not in ("", GPG):
        raise Refused(f"the set is encrypted by {name}, which this release does not know: install a later one")
    return Gpg() if name else Plain()


def _read_identities(path: Path) -> tuple[str, ...]:
    identities = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    identities = [line for line in identities if line.startswith(SECRET_LINE)]
    if not identities:
        raise Refused(f"{path}: holds no line {SECRET_LINE}...: give the file that age-keygen wrote")
    try:
        for identity in identities:
            pyrage.x25519.Identity.from_str(identity)
    except pyrage.IdentityError as error:
        raise Refused(f"{path}: holds a damaged key of age: give the file that age-keygen wrote") from error
    return tuple(identities)
