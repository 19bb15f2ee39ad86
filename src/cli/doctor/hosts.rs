//! How the hosts are wired, and what stands before our wiring.
//!
//! Hosts read several files, and of two servers of one name only one runs. Which one, and for whom
//! it acts, is not to be seen in a session: it answers as if all were well.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Report, Verdict};
use crate::cli::paths;
use crate::cli::setup::{self, Host, SERVER};
use crate::types::text::shell_word;

/// Looks at both hosts; `key` is whom the rest of the report is about.
pub(super) fn look(report: &mut Report, key: &Path) {
    let folders: Vec<PathBuf> = std::env::current_dir()
        .map(|dir| dir.ancestors().map(Path::to_owned).collect())
        .unwrap_or_default();
    look_at_wiring(report, "claude", Host::Claude);
    let env = paths::process_env;
    if let Ok((servers, _)) = paths::claude_files(&env, false) {
        let servers = claude_servers(&servers, &folders);
        look_at_claude(report, &servers);
        if let Some(first) = servers.first().filter(|first| first.is_ours()) {
            look_at_identity(report, first, key);
        }
    }
    look_at_wiring(report, "codex", Host::Codex);
    if let Ok(file) = paths::codex_file(&env) {
        look_at_codex(report, &file, &folders);
    }
}

fn text(path: &Path) -> String {
    setup::read(path).ok().flatten().unwrap_or_default()
}

fn look_at_wiring(report: &mut Report, name: &'static str, host: Host) {
    let env = paths::process_env;
    let files = match host {
        Host::Claude => paths::claude_files(&env, false),
        Host::Codex => paths::codex_file(&env).map(|file| (file.clone(), file)),
    };
    let Ok((server, hooks)) = files else { return };
    let mut wired = setup::wired(host, &text(&server), &text(&hooks));
    if host == Host::Claude
        && let Ok((server, hooks)) = paths::claude_files(&env, true)
    {
        let project = setup::wired(host, &text(&server), &text(&hooks));
        wired = (wired.0 || project.0, wired.1 || project.1);
    }
    let (verdict, found, mend) = match wired {
        (true, true) => (Verdict::Ok, "server and hooks are wired", None),
        (true, false) => (
            Verdict::Hint,
            "the server is wired, its hooks are not",
            Some(format!("interlink-mcp setup {name}")),
        ),
        (false, _) => (
            Verdict::Hint,
            "not wired (a plugin is not looked for)",
            Some(format!("interlink-mcp setup {name}, if you use it")),
        ),
    };
    report.add(name, verdict, found.to_owned(), mend.as_deref());
}

/// A server of our name in one of Claude Code's scopes.
#[derive(Debug)]
struct Entry {
    scope: &'static str,
    file: PathBuf,
    says: Value,
}

impl Entry {
    fn place(&self) -> String {
        format!("{} scope ({})", self.scope, self.file.display())
    }

    /// What it runs, in a line.
    fn runs(&self) -> String {
        let word = |name: &str| self.says.get(name).and_then(Value::as_str);
        let mut line = match (word("command"), word("url")) {
            (Some(command), _) => command.to_owned(),
            (None, Some(url)) => url.to_owned(),
            (None, None) => "nothing".to_owned(),
        };
        let arguments = self.says.get("args").and_then(Value::as_array);
        for argument in arguments.into_iter().flatten().filter_map(Value::as_str) {
            line.push(' ');
            line.push_str(argument);
        }
        let key = self.says.pointer("/env/INTERLINK_KEY");
        if let Some(key) = key.and_then(Value::as_str).filter(|key| !key.is_empty()) {
            line.push_str(&format!(" with the key {key}"));
        }
        line
    }

    fn is_ours(&self) -> bool {
        let command = self.says.get("command").and_then(Value::as_str);
        command.is_some_and(|command| {
            Path::new(command)
                .file_stem()
                .is_some_and(|name| name == "interlink-mcp")
        })
    }
}

/// The servers of our name that Claude Code finds from a folder, given with its ancestors; the one
/// that runs is the first.
fn claude_servers(user: &Path, folders: &[PathBuf]) -> Vec<Entry> {
    let named = |value: &Value| value.get("mcpServers")?.get(SERVER).cloned();
    let mut found = vec![];
    let mut add = |scope, file: PathBuf, says: Option<Value>| {
        if let Some(says) = says {
            found.push(Entry { scope, file, says });
        }
    };
    let config: Value = serde_json::from_str(&text(user)).unwrap_or_default();
    // Its own list of projects, by the root of the repository: nearer than the file that is shared.
    let local = folders.iter().find_map(|folder| {
        let projects = config.get("projects")?;
        named(projects.get(folder.to_str()?)?)
    });
    add("local", user.to_owned(), local);
    let shared = folders.iter().find_map(|folder| {
        let file = folder.join(".mcp.json");
        let says = named(&serde_json::from_str(&text(&file)).ok()?)?;
        Some((file, says))
    });
    if let Some((file, says)) = shared {
        add("project", file, Some(says));
    }
    add("user", user.to_owned(), named(&config));
    found
}

fn look_at_claude(report: &mut Report, servers: &[Entry]) {
    let Some((first, rest)) = servers.split_first() else {
        return;
    };
    for hidden in rest.iter().filter(|entry| entry.says != first.says) {
        let once = if first.scope == "project" {
            ", once it is approved,"
        } else {
            ""
        };
        let found = format!(
            "in this folder `{SERVER}` of the {}{once} hides that of the {}: it runs {}, not {}",
            first.place(),
            hidden.place(),
            first.runs(),
            hidden.runs()
        );
        let mend = format!(
            "keep one: claude mcp remove {SERVER} -s {}, or -s {}",
            first.scope, hidden.scope
        );
        report.add("claude", Verdict::Hint, found, Some(&mend));
    }
    if !first.is_ours() {
        let found = format!(
            "in this folder `{SERVER}` of the {} is not this program: it runs {}",
            first.place(),
            first.runs()
        );
        let mend = format!(
            "claude mcp remove {SERVER} -s {}, then interlink-mcp setup claude",
            first.scope
        );
        report.add("claude", Verdict::Hint, found, Some(&mend));
    }
}

/// Whether the server that runs here acts for somebody else than the rest of the report is about.
fn look_at_identity(report: &mut Report, server: &Entry, key: &Path) {
    let says = |name: &str| {
        let value = server.says.get("env")?.get(name)?.as_str()?;
        (!value.is_empty()).then_some(value)
    };
    let Some(theirs) = says("INTERLINK_KEY") else {
        return;
    };
    if std::path::absolute(key).is_ok_and(|ours| ours == Path::new(theirs)) {
        return;
    }
    let found = format!(
        "in this folder the server runs with the key {theirs}; this report is about {}",
        key.display()
    );
    let flags = [
        ("INTERLINK_PEERS", "--peers"),
        ("INTERLINK_AGENT_DB", "--db"),
        ("INTERLINK_URL", "--url"),
    ];
    let mut mend = format!("interlink-mcp doctor --key {}", shell_word(theirs));
    for (name, flag) in flags {
        if let Some(value) = says(name) {
            mend.push_str(&format!(" {flag} {}", shell_word(value)));
        }
    }
    report.add("claude", Verdict::Hint, found, Some(&mend));
}

fn look_at_codex(report: &mut Report, user: &Path, folders: &[PathBuf]) {
    for folder in folders {
        let file = folder.join(".codex").join("config.toml");
        if file == user || setup::codex_tables(&text(&file)) == 0 {
            continue;
        }
        let found = format!(
            "in this folder, once it is trusted, `mcp_servers.{SERVER}` of {} goes before that of \
             {}, line by line",
            file.display(),
            user.display()
        );
        let mend = "keep one: take the table out of the project's file";
        report.add("codex", Verdict::Hint, found, Some(mend));
    }
    if setup::codex_tables(&text(user)) > 1 {
        let found = format!("{} has `mcp_servers.{SERVER}` twice", user.display());
        let mend = "keep one: Codex does not start with both";
        report.add("codex", Verdict::Broken, found, Some(mend));
    }
}
