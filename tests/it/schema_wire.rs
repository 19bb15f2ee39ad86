//! The published schemas are generated from the types. `UPDATE_GOLDEN=1` rewrites them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn published_schemas_are_those_of_the_types() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/wire");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut expected = BTreeSet::new();
    for (name, schema) in interlink::wire::schema::all() {
        let file = format!("{name}.schema.json");
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if update {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(&file), &text).unwrap();
        }
        let published = fs::read_to_string(dir.join(&file)).unwrap_or_default();
        assert!(
            published == text,
            "schema/wire/{file} is stale: run with UPDATE_GOLDEN=1"
        );
        assert!(expected.insert(file), "{name} twice");
    }
    let found: BTreeSet<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    assert_eq!(
        found, expected,
        "schema/wire has files that no type stands behind"
    );
}
