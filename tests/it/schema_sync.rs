//! The pages in `schema/` say what the program does: every event kind, every field, every table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use interlink::codec::frame;
use interlink::crypto::hash::sha256;
use interlink::domain::Domain;
use interlink::domain::decide::bus::Bus;
use interlink::domain::tables::TableId;
use interlink::event::StoredEvent;
use interlink::event::kind::{EventKind, StoreKind};
use interlink::testkit::Rng;
use interlink::testkit::sample::bus_event;

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema")
}

fn page(name: &str) -> String {
    let path = schema().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn stores() -> Vec<StoreKind> {
    // The pages of the other store come with its table page.
    let mut out = vec![StoreKind::Bus];
    out.extend(
        schema()
            .join("tables-agent.md")
            .exists()
            .then_some(StoreKind::Agent),
    );
    out
}

fn file_name(kind: EventKind) -> String {
    format!("{:04}-{}.md", kind.number(), kind.name().replace('_', "-"))
}

#[test]
fn every_event_kind_has_exactly_one_page() {
    let mut pages: BTreeSet<String> = fs::read_dir(schema().join("events"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    for kind in EventKind::ALL {
        let present = pages.remove(&file_name(*kind));
        assert!(
            present || !stores().contains(&kind.store()),
            "{} is missing",
            file_name(*kind)
        );
    }
    assert!(pages.is_empty(), "pages of no kind: {pages:?}");
}

/// Names of all fields, also of nested objects.
fn fields(value: &serde_json::Value, out: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                out.insert(name.clone());
                // What a session says about itself is its own business.
                if name != "announcement" {
                    fields(value, out);
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, out)),
        _ => {}
    }
}

#[test]
fn a_page_names_its_kind_version_and_every_field() {
    let mut rng = Rng::new(1);
    for kind in EventKind::ALL.iter().copied() {
        let Some(event) = bus_event(kind, &mut rng) else {
            continue;
        };
        assert_eq!(event.kind(), kind);
        let text = page(&format!("events/{}", file_name(kind)));
        let title = format!(
            "# {} `{}`, version {}",
            kind.number(),
            kind.name(),
            kind.version()
        );
        assert!(
            text.starts_with(&title),
            "{} starts otherwise than {title:?}",
            file_name(kind)
        );
        let mut names = BTreeSet::new();
        fields(&event.to_json(), &mut names);
        assert!(!names.is_empty());
        for name in names {
            assert!(
                text.contains(&format!("| `{name}`")),
                "{}: `{name}`",
                file_name(kind)
            );
        }
        for projection in Bus::projections() {
            let line = format!("- `{}`", projection.name());
            assert!(text.contains(&line), "{}: {line}", file_name(kind));
        }
    }
}

#[test]
fn every_table_is_described() {
    let mut text = page("tables.md");
    if stores().contains(&StoreKind::Agent) {
        text.push_str(&page("tables-agent.md"));
    }
    for table in TableId::ALL
        .iter()
        .filter(|t| stores().contains(&t.store()))
    {
        let title = format!("`{}` ({})", table.name(), table.number());
        assert!(text.contains(&title), "{title} is not described");
    }
    for table in ["log", "bodies", "meta"] {
        assert!(text.contains(&format!("## `{table}`")), "{table}");
    }
}

#[test]
fn the_frame_page_has_the_constants() {
    let text = page("log-frame.md");
    for needle in [
        format!("{} bytes before the payload", frame::HEADER_BYTES),
        format!("{} bytes around", frame::OVERHEAD_BYTES),
        format!("frame version {}", frame::FRAME_VERSION),
        data_encoding::HEXLOWER_SPACED.encode(&frame::MAGIC),
    ] {
        assert!(text.contains(&needle), "{needle:?}");
    }
}

mod data_encoding {
    /// Hexadecimal with a blank between bytes.
    pub(super) struct Spaced;
    pub(super) const HEXLOWER_SPACED: Spaced = Spaced;

    impl Spaced {
        pub(super) fn encode(&self, bytes: &[u8]) -> String {
            let bytes: Vec<_> = bytes.iter().map(|b| format!("{b:02x}")).collect();
            bytes.join(" ")
        }
    }
}

/// One SHA-256 per event kind over the encodings of 256 seeded events. A changed hash is a changed
/// format: it needs a new event version and an upcaster, not a new hash.
#[test]
fn encodings_are_the_recorded_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conformance.toml");
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    let mut missing = String::new();
    for kind in EventKind::ALL
        .iter()
        .copied()
        .filter(|k| k.store() == StoreKind::Bus)
    {
        let mut rng = Rng::new(u64::from(kind.number()));
        let mut bytes = vec![];
        for _ in 0..256 {
            let event = bus_event(kind, &mut rng).unwrap();
            let encoded = event.encode().unwrap();
            let back =
                interlink::event::bus::BusEvent::decode(kind.number(), kind.version(), &encoded);
            assert_eq!(back.unwrap(), event);
            bytes.extend_from_slice(&(encoded.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&encoded);
        }
        let hash: String = sha256(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        let key = format!("bus.{}.v{}", kind.name(), kind.version());
        let line = format!("\"{key}\" = \"{hash}\"");
        if recorded.contains(&format!("\"{key}\"")) {
            assert!(
                recorded.lines().any(|l| l == line),
                "the encoding of {key} has changed"
            );
        } else {
            missing.push_str(&line);
            missing.push('\n');
        }
    }
    if !missing.is_empty() {
        assert!(
            std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1"),
            "not recorded yet (UPDATE_GOLDEN=1 does it):\n{missing}"
        );
        fs::write(&path, recorded + &missing).unwrap();
    }
}
