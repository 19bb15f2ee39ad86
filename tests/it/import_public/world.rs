//! A copy of the public program's folder, and an identity of ours beside it with the same key.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp_support::Agent;

const NOWHERE: &str = "http://127.0.0.1:9";

/// See the module's documentation.
pub(crate) struct World {
    dir: tempfile::TempDir,
    keys: BTreeMap<String, String>,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/public-0.13")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// Every file below a folder, by path, with what is in it.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

impl World {
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        copy(&golden().join("state"), &dir.path().join("old"));
        let key = dir.path().join("id.key");
        fs::copy(golden().join("id.key"), &key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let keys = fs::read_to_string(golden().join("keys.json")).unwrap();
        World {
            dir,
            keys: serde_json::from_str(&keys).unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The public program's folder.
    pub(crate) fn old(&self) -> PathBuf {
        self.path().join("old")
    }

    /// A party's public key: `b` is ours.
    pub(crate) fn key(&self, name: &str) -> String {
        self.keys[name].clone()
    }

    pub(crate) fn agent_store(&self) -> PathBuf {
        let agents = self.path().join("state/interlink/agent");
        agents.join(self.key("b")).join("agent.redb")
    }

    pub(crate) fn bus_store(&self) -> PathBuf {
        self.path().join("state/interlink/bus.redb")
    }

    pub(crate) fn peers(&self) -> Value {
        let text = fs::read_to_string(self.path().join("peers.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        tree(self.path())
    }

    pub(crate) fn old_tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        tree(&self.old())
    }

    /// `interlink-admin` with the identity's environment.
    fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-admin"));
        command
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("INTERLINK_KEY", self.path().join("id.key"))
            .env("INTERLINK_PEERS", self.path().join("peers.json"));
        command
    }

    /// Every record of a closed store but the newest is folded away.
    pub(crate) fn compact(&self, store: &Path) {
        let store = store.to_str().unwrap();
        let done = self.admin(&[
            "--store",
            store,
            "--json",
            "compact",
            "--older-than",
            "0",
            "--yes",
        ]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        let told: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(told["records_left"], 1, "{told}");
    }

    /// An import with these arguments alone.
    pub(crate) fn bare(&self, args: &[&str]) -> Command {
        let mut command = self.program();
        command.arg("import").args(args);
        command
    }

    /// An import of the folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(&["--from-interlink"]);
        command.arg(self.old()).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(&mut self.command(args))
    }

    /// The JSON answer of an import that must succeed.
    pub(crate) fn answer(&self, args: &[&str]) -> Value {
        let (code, told) = self.told(args);
        assert_eq!(code, 0, "{told}");
        told
    }

    /// The JSON answer of an import, and its exit code.
    pub(crate) fn told(&self, args: &[&str]) -> (i32, Value) {
        let mut command = self.command(args);
        let said = said(command.arg("--json"));
        let told = serde_json::from_str(&said.stdout)
            .unwrap_or_else(|e| panic!("{e}: {} {}", said.stdout, said.stderr));
        crate::admin_schema::answers(&["import", "--from-interlink"], &told);
        (said.code, told)
    }

    /// Another command of the operator.
    pub(crate) fn admin(&self, args: &[&str]) -> Said {
        said(self.program().args(args))
    }

    /// The records of one of the stores.
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let store = match kind {
            "agent" => self.agent_store(),
            _ => self.bus_store(),
        };
        let said = self.admin(&["--store", store.to_str().unwrap(), "log", "--json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// A channel server of the identity; no relay answers.
    pub(crate) fn start(&self, session: &str) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"));
        command
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("INTERLINK_PEERS", self.path().join("peers.json"))
            .args(["--session", session, "--url", NOWHERE])
            .arg("--key")
            .arg(self.path().join("id.key"));
        Agent::start(command)
    }
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    Said {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr,
    }
}

/// A count of every part, in the order in which they are told.
pub(crate) fn parts<'a>(told: &'a Value, count: &str) -> Vec<(&'a str, u64)> {
    let parts = told["parts"].as_array().unwrap().iter();
    parts
        .map(|part| {
            (
                part["name"].as_str().unwrap(),
                part[count].as_u64().unwrap(),
            )
        })
        .collect()
}

/// The counts of one part.
pub(crate) fn part(told: &Value, name: &str) -> Value {
    let parts = told["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["name"] == name).unwrap();
    json!({
        "found": part["found"], "taken": part["taken"], "known": part["known"],
        "left": part["left"],
    })
}
