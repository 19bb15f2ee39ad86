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
use interlink::testkit::sample_agent::agent_event;

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema")
}

fn page(name: &str) -> String {
    let path = schema().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
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
        assert!(
            pages.remove(&file_name(*kind)),
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

/// The fields of a few events of one kind: alternatives may differ in what they have.
fn fields_of(kind: EventKind) -> BTreeSet<String> {
    let mut rng = Rng::new(1);
    let mut names = BTreeSet::new();
    for _ in 0..20 {
        let json = match kind.store() {
            StoreKind::Bus => bus_event(kind, &mut rng).unwrap().to_json(),
            StoreKind::Agent => agent_event(kind, &mut rng).unwrap().to_json(),
        };
        fields(&json, &mut names);
    }
    names
}

#[test]
fn a_page_names_its_kind_version_and_every_field() {
    for kind in EventKind::ALL.iter().copied() {
        let text = page(&format!("events/{}", file_name(kind)));
        let (number, name, version) = (kind.number(), kind.name(), kind.version());
        let title = format!("# {number} `{name}`, version {version}");
        assert!(
            text.starts_with(&title),
            "{name} starts otherwise than {title:?}"
        );
        let names = fields_of(kind);
        assert!(!names.is_empty());
        for field in names {
            let row = text
                .lines()
                .any(|l| l.starts_with("| ") && l.contains(&format!("`{field}`")));
            assert!(row, "{name}: no row for `{field}`");
        }
        if kind.store() == StoreKind::Bus {
            for projection in Bus::projections() {
                let line = format!("- `{}`", projection.name());
                assert!(text.contains(&line), "{name}: {line}");
            }
        }
    }
}

#[test]
fn every_table_is_described() {
    let text = page("tables.md") + &page("tables-agent.md");
    for table in TableId::ALL {
        let title = format!("`{}` ({})", table.name(), table.number());
        let row = format!("| {} | `{}`", table.number(), table.name());
        let there = text.contains(&title) || text.contains(&row);
        assert!(there, "{title} is not described");
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

/// The encodings of 256 seeded events, each with its length in front; each decodes to itself.
fn encodings<E: StoredEvent>(
    kind: EventKind,
    sample: fn(EventKind, &mut Rng) -> Option<E>,
) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(kind.number()));
    let mut bytes = vec![];
    for _ in 0..256 {
        let event = sample(kind, &mut rng).unwrap();
        assert_eq!(event.kind(), kind);
        let encoded = event.encode().unwrap();
        assert_eq!(
            E::decode(kind.number(), kind.version(), &encoded).unwrap(),
            event
        );
        bytes.extend_from_slice(&(encoded.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&encoded);
    }
    bytes
}

/// One SHA-256 per event kind over the encodings of 256 seeded events. A changed hash is a changed
/// format: it needs a new event version and an upcaster, not a new hash.
#[test]
fn encodings_are_the_recorded_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conformance.toml");
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    let mut missing = String::new();
    for kind in EventKind::ALL.iter().copied() {
        let bytes = match kind.store() {
            StoreKind::Bus => encodings(kind, bus_event),
            StoreKind::Agent => encodings(kind, agent_event),
        };
        let hash: String = sha256(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        let key = format!(
            "{}.{}.v{}",
            kind.store().name(),
            kind.name(),
            kind.version()
        );
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
