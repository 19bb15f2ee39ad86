//! `interlink-keygen` as a process: output, exit codes, files.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use interlink::keystore::{KeyPermissions, load};

fn keygen(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-keygen"));
    command.current_dir(dir).env_clear().env("HOME", dir);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn a_new_identity_is_reported_and_its_secret_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let output = keygen(dir.path())
        .args(["--out", "sub/id.key"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");

    let path = dir.path().join("sub/id.key");
    let identity = load(&path, KeyPermissions::Private).unwrap();
    let key = identity.public().to_string();
    let stdout = text(&output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{stdout}");
    assert_eq!(lines[0], "secret key : sub/id.key");
    assert_eq!(lines[1], format!("public key : {key}"));
    assert_eq!(
        lines[1].split(' ').nth(3),
        Some(key.as_str()),
        "scripts take the fourth field"
    );
    assert_eq!(
        lines[2],
        format!("fingerprint: {}", identity.public().fingerprint())
    );
    assert_eq!(lines[3], "");
    let entry = lines[5].split_once(": ").unwrap().1;
    let peers = interlink::wire::peers::Peers::parse(entry).unwrap();
    assert_eq!(peers.iter().next().unwrap().1, identity.public());

    let secret = fs::read_to_string(&path).unwrap();
    assert!(!stdout.contains(secret.trim()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&dir.path().join("sub")), 0o700);
}

#[test]
fn an_existing_key_is_replaced_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("id.key");
    let run = |args: &[&str]| {
        keygen(dir.path())
            .env("INTERLINK_KEY", &path)
            .args(args)
            .output()
            .unwrap()
    };
    assert_eq!(code(&run(&[])), 0);
    let first = fs::read_to_string(&path).unwrap();
    let refused = run(&[]);
    assert_eq!(code(&refused), 1);
    assert_eq!(text(&refused.stdout), "");
    assert!(
        text(&refused.stderr).contains("--force"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
    assert_eq!(code(&run(&["--force"])), 0);
    assert_ne!(fs::read_to_string(&path).unwrap(), first);
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing is left behind"
    );
}

#[test]
fn the_default_place_is_under_the_home_and_an_empty_home_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let output = keygen(dir.path()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let path = dir.path().join(".config/interlink/id.key");
    assert!(load(&path, KeyPermissions::Private).is_ok());

    let bare = tempfile::tempdir().unwrap();
    let output = keygen(bare.path()).env("HOME", "").output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(
        text(&output.stderr).contains("HOME"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        fs::read_dir(bare.path()).unwrap().count(),
        0,
        "nothing in the current directory"
    );
}

#[test]
fn usage_errors_exit_2_and_version_and_help_exit_0() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arg: &str| keygen(dir.path()).arg(arg).output().unwrap();
    assert_eq!(code(&run("--no-such-flag")), 2);
    assert_eq!(code(&run("stray")), 2);
    let version = run("--version");
    assert_eq!(code(&version), 0);
    let expected = format!("interlink-keygen {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&version.stdout), expected);
    assert_eq!(code(&run("--help")), 0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_unwritable_place_exits_1() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let output = keygen(dir.path())
        .args(["--out", "file/id.key"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    assert!(
        text(&output.stderr).contains("file/id.key"),
        "{}",
        text(&output.stderr)
    );
}
