# Sourced by the checks: where tools are kept and how a missing one is installed.
#
#   INTERLINK_CI_TOOLS   folder for installed tools (default: <target>/ci-tools)
#
# A tool that is installed already is used as it is. Installing needs the registries and, for some
# tools, a C compiler: never the CC that a check may have disabled.

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
tools=${INTERLINK_CI_TOOLS:-$target/ci-tools}
mkdir -p "$tools"
tools=$(cd "$tools" && pwd)

# Exit status of a check that its documented variable switched off.
skipped=77

# cargo_tool CRATE VERSION ROOT: installs it, unoptimised, for that is quicker than it is slow.
cargo_tool() {
  echo "installing $1 $2"
  env -u CC -u CXX -u RUSTFLAGS cargo install "$1" --version "$2" --locked --debug --quiet \
    --root "$3" --target-dir "$target/ci-tools-build"
  rm -rf "$target/ci-tools-build"
}

# The folder of our release programs, built when it is not given.
programs() {
  if [ -n "${INTERLINK_PROGRAMS:-}" ]; then
    echo "$INTERLINK_PROGRAMS"
  else
    cargo build --release --bins --quiet >&2
    echo "$target/release"
  fi
}
