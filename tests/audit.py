"""A check of `make lint`: known vulnerabilities of what a lock pins, and how much of it could be asked about.

pip-audit passes over what the service does not know, and then says that nothing was found: behind a mirror of the index
that has no such service, that is everything. Run it as `python -m tests.audit requirements.lock`.
"""

import json
import subprocess
import sys

OPTIONS = ["--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json"]
UNREACHABLE = ("ConnectionError", "Could not connect", "blocking this service")  # what pip-audit's error then has


def describe_audit(answer: str, errors: str) -> tuple[list[str], bool]:
    """What to print of pip-audit's JSON and of its standard error, and whether nothing speaks against the lock.

    A service that cannot be asked fails nothing, as nobody who changes the code can mend that: it is said. What breaks
    pip-audit off in another way fails.
    """
    if not answer.strip():
        if any(sign in errors for sign in UNREACHABLE):
            return ["NOT AUDITED: the service that knows of vulnerabilities cannot be reached from here"], True
        return [errors, "pip-audit broke off"], False
    packages = json.loads(answer)["dependencies"]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {problem['id']}, mended in {problem['fix_versions'] or 'no release'}"
        for package in packages
        for problem in package.get("vulns", [])
    ]
    summary = f"{len(packages) - len(skipped)} of {len(packages)} packages audited, {len(lines)} vulnerabilities"
    if skipped:
        names = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        summary += f"\nNOT AUDITED: the service knows nothing of {len(skipped)} packages ({names})"
    return [*lines, summary], not lines


def main() -> int:
    """Audit the locks named as arguments; returns 1 where one pins a package with a known vulnerability."""
    succeeded = True
    for lock in sys.argv[1:]:
        command = [sys.executable, "-m", "pip_audit", *OPTIONS, "--requirement", lock]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        lines, passed = describe_audit(process.stdout, process.stderr)
        sys.stdout.write("".join(f"{lock}: {line}\n" for line in lines))
        succeeded &= passed
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
