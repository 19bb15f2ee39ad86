//! Parameters of the tools of sealed sessions. Their names are those of the public program that
//! speaks the same protocol.

use schemars::JsonSchema;
use serde::Deserialize;

/// `bond_connect`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Connect {
    /// True: a code of digits and three words, to be said aloud, with delivery that is acknowledged
    /// and survives outages, and files of any content; both sides must be this program. False: a code
    /// that the public Covalent Bond client takes too. Default: what the user set, else false.
    pub spoken: Option<bool>,
}

/// `bond_join`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Join {
    /// The code that the other side's user was shown, exactly as it was written.
    #[schemars(length(min = 1, max = 128))]
    pub session_code: String,
}

/// `bond_send`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SendFile {
    /// The file: a path inside the project directory.
    pub filepath: String,
    /// A note that goes with it.
    pub message: Option<String>,
}

/// `bond_message`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Message {
    /// What to say: 1 to 4000 UTF-16 units.
    pub content: String,
}

/// `bond_wait`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// How long at most: 1 to 300 seconds. Default 50.
    pub timeout_seconds: Option<f64>,
}

/// `bond_accept` and `bond_decline`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transfer {
    /// The id of the file, as its event or bond_status has it.
    #[schemars(length(min = 1, max = 64))]
    pub transfer_id: String,
}

/// `bond_pin`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Pin {
    /// What the other side will be called here. Default: what it calls itself, where that is free.
    pub petname: Option<String>,
}

/// `send_file`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FileToPeer {
    /// Who gets it: a peer's name, or its public key.
    pub peer: String,
    /// The file: a path inside the project directory.
    pub filepath: String,
    /// A note that goes with it.
    pub message: Option<String>,
    /// The peer's session, where it has several.
    pub session: Option<String>,
    /// Invite it although it is not known that its program takes files this way: the user says that it is
    /// this program. Another one shows a message about it instead.
    pub anyway: Option<bool>,
}
