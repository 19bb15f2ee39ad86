//! Answers of the admin tool have published schemas, generated from the types that write them.
//! `UPDATE_GOLDEN=1` rewrites the files. What commands really answer is checked against them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/admin")
}

#[test]
fn published_schemas_of_answers_are_those_of_the_types() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut expected = BTreeSet::new();
    for (name, schema) in interlink::cli::admin::schema::all() {
        let file = format!("{name}.schema.json");
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if update {
            fs::create_dir_all(folder()).unwrap();
            fs::write(folder().join(&file), &text).unwrap();
        }
        let published = fs::read_to_string(folder().join(&file)).unwrap_or_default();
        assert!(
            published == text,
            "schema/admin/{file} is stale: run with UPDATE_GOLDEN=1"
        );
        expected.insert(file);
    }
    let found: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    assert_eq!(found, expected);
}

/// Checks an answer against the published schema of this name, if there is one.
pub(crate) fn conforms(name: &str, answer: &Value) {
    let Ok(text) = fs::read_to_string(folder().join(format!("{name}.schema.json"))) else {
        return;
    };
    let schema: Value = serde_json::from_str(&text).unwrap();
    if let Err(e) = check(&schema, &schema, answer, "") {
        panic!("{name}{e}: {answer}");
    }
}

/// The schema of the answer of a command line that names the command first.
fn schema_of(args: &[&str]) -> String {
    const SUBCOMMANDS: [&str; 16] = [
        "show", "drop", "retry", "remove", "clear", "add", "accept", "reject", "cancel", "resolve",
        "block", "unblock", "list", "forget", "decline", "end",
    ];
    match args {
        ["--store", _, rest @ ..] => schema_of(rest),
        ["import", rest @ ..] if rest.contains(&"--from-interlink") => {
            "import-from-interlink".to_owned()
        }
        [command, "list", ..] => (*command).to_owned(),
        [command, sub, ..] if SUBCOMMANDS.contains(sub) => format!("{command}-{sub}"),
        [command, ..] => (*command).to_owned(),
        [] => String::new(),
    }
}

/// Checks the answer of a command line, which must have a schema.
pub(crate) fn answers(args: &[&str], answer: &Value) {
    let name = schema_of(args);
    let path = folder().join(format!("{name}.schema.json"));
    assert!(path.exists(), "{args:?}: no {}", path.display());
    conforms(&name, answer);
}

/// Commands whose answer is no JSON document of their own.
const OTHERS: [&str; 3] = ["demo", "completions", "man"];

#[test]
fn every_command_has_a_published_schema() {
    fn help(args: &[String]) -> String {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_interlink-admin"));
        let output = program
            .env_clear()
            .args(args)
            .arg("--help")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
    fn walk(args: &[String], into: &mut Vec<Vec<String>>) {
        let text = help(args);
        let lines = text.lines().skip_while(|l| *l != "Commands:").skip(1);
        let lines = lines.take_while(|l| !l.is_empty());
        let names = lines.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
        let names: Vec<&str> = names.filter_map(|l| l.split_whitespace().next()).collect();
        if names.is_empty() {
            into.push(args.to_vec());
        }
        for name in names.into_iter().filter(|name| *name != "help") {
            walk(&[args, &[name.to_owned()]].concat(), into);
        }
    }
    let mut commands = vec![];
    walk(&[], &mut commands);
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        if !OTHERS.contains(&words[0]) {
            let name = schema_of(&words);
            let path = folder().join(format!("{name}.schema.json"));
            assert!(path.exists(), "{words:?}: {name}");
        }
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("a type that this test does not know: {other}"),
    }
}

/// What the published schemas use of JSON Schema. A member that a schema does not name is wrong
/// too: then it is not documented.
fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(rules) = schema.as_object() else {
        return match schema.as_bool() {
            Some(true) => Ok(()),
            _ => Err(format!("{at}: nothing may be here")),
        };
    };
    if let Some(path) = rules.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(path.trim_start_matches('#'));
        return check(root, target.unwrap(), value, at);
    }
    if let Some(kinds) = rules.get("type") {
        let fits = match kinds {
            Value::String(kind) => is_a(kind, value),
            Value::Array(kinds) => kinds.iter().any(|kind| is_a(kind.as_str().unwrap(), value)),
            _ => false,
        };
        if !fits {
            return Err(format!("{at}: not of type {kinds}"));
        }
    }
    if rules.get("const").is_some_and(|only| only != value) {
        return Err(format!("{at}: not {}", rules["const"]));
    }
    if let Some(words) = rules.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        return Err(format!("{at}: none of {words:?}"));
    }
    for name in ["anyOf", "oneOf"] {
        let Some(schemas) = rules.get(name).and_then(Value::as_array) else {
            continue;
        };
        let fitting = schemas
            .iter()
            .filter(|schema| check(root, schema, value, at).is_ok());
        if fitting.count() == 0 {
            return Err(format!("{at}: none of its alternatives"));
        }
    }
    if let (Some(items), Some(list)) = (rules.get("items"), value.as_array()) {
        for (n, item) in list.iter().enumerate() {
            check(root, items, item, &format!("{at}/{n}"))?;
        }
    }
    let Some(members) = value.as_object() else {
        return Ok(());
    };
    let required = rules.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            return Err(format!("{at}: without {name}"));
        }
    }
    let named = rules.get("properties").and_then(Value::as_object);
    let others = rules.get("additionalProperties");
    for (name, member) in members {
        let at = format!("{at}/{name}");
        match (named.and_then(|named| named.get(name)), others) {
            (Some(schema), _) | (None, Some(schema)) => check(root, schema, member, &at)?,
            (None, None) if named.is_some() => return Err(format!("{at}: not documented")),
            (None, None) => {}
        }
    }
    Ok(())
}

#[test]
fn the_check_of_answers_can_fail() {
    let schema = json!({
        "type": "object", "required": ["a"], "properties": {
            "a": { "type": ["integer", "null"] },
            "b": { "items": { "oneOf": [{ "const": "x" }, { "const": "y" }] } },
            "c": { "$ref": "#/$defs/any" },
        },
        "$defs": { "any": true },
    });
    let fits = |value: Value| check(&schema, &schema, &value, "").is_ok();
    assert!(fits(json!({ "a": 1, "b": ["x", "y"], "c": {} })));
    assert!(fits(json!({ "a": null })));
    for wrong in [
        json!([]),
        json!({}),
        json!({ "a": "1" }),
        json!({ "a": 1, "b": ["z"] }),
        json!({ "a": 1, "d": 1 }),
    ] {
        assert!(!fits(wrong.clone()), "{wrong}");
    }
}
