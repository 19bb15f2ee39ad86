//! `docs/operations.md` names every flag, variable and command of the four programs, and no other.

use std::collections::BTreeSet;
use std::process::Command;

const PROGRAMS: [(&str, &str); 4] = [
    ("interlink-bus", env!("CARGO_BIN_EXE_interlink-bus")),
    ("interlink-mcp", env!("CARGO_BIN_EXE_interlink-mcp")),
    ("interlink-keygen", env!("CARGO_BIN_EXE_interlink-keygen")),
    ("interlink-admin", env!("CARGO_BIN_EXE_interlink-admin")),
];

/// What every program of this kind has, and what needs no words.
const USUAL: [&str; 2] = ["--help", "--version"];

/// The page as it is on disk, so that a test run after an edit sees the edit.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    std::fs::read_to_string(path).unwrap()
}

/// The section of a program.
fn section<'a>(page: &'a str, program: &str) -> &'a str {
    let head = format!("\n## {program}\n");
    let at = page.find(&head).unwrap() + head.len();
    let rest = &page[at..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

fn help(path: &str, command: &[String]) -> String {
    let mut program = Command::new(path);
    program.env_clear().args(command).arg("--help");
    let output = program.output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Words that begin with a text and go on with lower case letters, digits and hyphens, or in upper case.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(start) {
        let before = text[..at].chars().next_back();
        let word: String = text[at..].chars().take_while(|c| goes_on(*c)).collect();
        if before.is_none_or(|c| !goes_on(c)) && word.len() > start.len() {
            found.insert(word);
        }
    }
    found
}

/// The flags that a help text lists, not those that it mentions.
fn flags(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start);
    let listed = lines.filter(|line| line.starts_with('-'));
    // The text of a flag stands behind two blanks, or in the next line.
    let names = listed.map(|line| line.split("  ").next().unwrap_or_default());
    names.flat_map(|name| words(name, "--")).collect()
}

/// The commands below a command, by their help.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(ToOwned::to_owned)
        .collect()
}

/// Everything that a program's help texts name: flags, variables, commands.
fn walk(path: &str, command: &[String], into: &mut BTreeSet<String>) {
    let text = help(path, command);
    into.extend(flags(&text));
    into.extend(words(&text, "INTERLINK_"));
    if !command.is_empty() {
        into.insert(command.join(" "));
    }
    for name in commands(&text) {
        walk(path, &[command, &[name]].concat(), into);
    }
}

#[test]
fn every_flag_variable_and_command_is_in_the_operators_page() {
    let page = page();
    let mut missing = vec![];
    for (name, path) in PROGRAMS {
        let mut named = BTreeSet::new();
        walk(path, &[], &mut named);
        assert!(named.len() > 2, "{name}: {named:?}");
        let section = section(&page, name);
        let mut known = words(section, "--");
        known.extend(words(section, "INTERLINK_"));
        for word in named {
            let there = if word.starts_with("--") || word.starts_with("INTERLINK_") {
                known.contains(&word) || USUAL.contains(&word.as_str())
            } else {
                section.contains(&format!("`{word}"))
            };
            if !there {
                missing.push(format!("{name}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/operations.md lacks: {missing:#?}");
}

#[test]
fn the_operators_page_names_no_flag_that_is_not_there() {
    let page = page();
    for (name, path) in PROGRAMS {
        let mut named = BTreeSet::new();
        walk(path, &[], &mut named);
        let rows = section(&page, name).lines();
        let first_cells = rows.filter_map(|row| row.strip_prefix("| `--")?.split('`').next());
        for flag in first_cells {
            let flag = format!("--{}", flag.split(' ').next().unwrap_or_default());
            assert!(named.contains(&flag), "{name} has no {flag}");
        }
    }
}
