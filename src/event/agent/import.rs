//! What came from another program.
//!
//! What is taken over is written in the same events as everything else, so that nothing that reads
//! the log has to know a second kind of mail or peer. What tells it apart is one record in front of
//! it, in the same transaction.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hex;

/// A part of the other program's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ImportedPart {
    /// Its list of who may write.
    Peers,
    /// Whose sessions it knew.
    Sessions,
    /// Messages that it had received.
    Mail,
    /// Requests of strangers that waited for its operator.
    Knocks,
    /// Requests of its own that waited for an answer.
    Requests,
    /// Signed pairing messages that it had not sent.
    Control,
}

impl ImportedPart {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ImportedPart::Peers => "peers",
            ImportedPart::Sessions => "sessions",
            ImportedPart::Mail => "mail",
            ImportedPart::Knocks => "knocks",
            ImportedPart::Requests => "requests",
            ImportedPart::Control => "control",
        }
    }
}

/// The records that follow in the same transaction were taken over from another program's state:
/// their origin is `import`, and their recorded times are those of the import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The program that wrote the state, 1 to 64 bytes.
    pub program: String,
    /// What was taken over.
    pub part: ImportedPart,
    /// How many records follow.
    pub records: u32,
    /// SHA-256 of each thing that leaves no lasting row, at most 256, so that it is not taken over
    /// again once it has ended.
    pub marks: Vec<[u8; 32]>,
}

impl Imported {
    pub(super) fn json(&self) -> Value {
        let marks: Vec<String> = self.marks.iter().map(|mark| hex(mark)).collect();
        json!({
            "origin": "import", "program": self.program, "part": self.part.name(),
            "records": self.records, "marks": marks,
        })
    }
}
