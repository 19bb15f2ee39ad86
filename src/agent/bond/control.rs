//! How the operator's terminal reaches the sealed session of a running server: a socket of its own for
//! each process, `run/bond-<pid>.sock` beside the identity's store.
//!
//! Files that nobody accepted yet exist in the memory of that process only, so whoever decides about one
//! has to ask it. The folder is for its owner only (0700), the socket too (0600), and the user of
//! whoever connects is checked. One line of JSON asks ([`Request`]), one answers ([`Reply`]); both are
//! bounded, and nothing that a connection does or leaves undone stops the server. What is asked is
//! carried out by a [`Desk`]; this module knows no session.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::audit::make_folder;
use crate::types::text::visible_json;

/// Longest question in bytes.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// Longest answer in bytes: 16 offers, or a preview.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;
/// Connections at a time; further ones wait in the system's backlog.
const MAX_CONNECTIONS: usize = 8;
/// Longest time for a question to arrive, and for an answer to leave.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that the desk may take. A file is written meanwhile.
const WORK: Duration = Duration::from_secs(30);
/// Longest path that every system takes for a socket, in bytes.
const MAX_SOCKET_PATH: usize = 100;
/// Names of the sockets.
const PREFIX: &str = "bond-";
const SUFFIX: &str = ".sock";

/// What the operator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The session, and the files that wait.
    List {},
    /// One file that waits, with the human's preview of it.
    Show {
        /// The offer's id.
        id: String,
    },
    /// Write a file.
    Accept {
        /// The offer's id.
        id: String,
        /// SHA-256 of what was shown, hex.
        sha256: String,
    },
    /// Throw a file away; the sender is told in our own mode only.
    Decline {
        /// The offer's id.
        id: String,
        /// SHA-256 of what was shown, hex.
        sha256: String,
    },
    /// Make a peer of the other side.
    Pin {
        /// The first 12 digits of the routing id of the session that was shown.
        routing: String,
        /// The key that was shown, where there was one.
        key: Option<String>,
        /// The name that it gets here; else what it calls itself.
        petname: Option<String>,
    },
    /// End the session.
    End {},
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `list`.
    Listed(Listed),
    /// To `show`.
    Shown(Shown),
    /// To `accept`: the file stands on the disk.
    Accepted(Accepted),
    /// To `decline`.
    Declined {},
    /// To `pin`.
    Pinned(Pinned),
    /// To `end`.
    Ended {
        /// Whether there was a session.
        was_open: bool,
    },
    /// It was not done.
    Failed(Failed),
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// The process.
    pub pid: u32,
    /// The conversation that it belongs to.
    pub conversation: String,
    /// The sealed session; absent when there is none. Files may wait all the same.
    pub session: Option<SessionView>,
    /// The files that wait, oldest first; at most 16.
    pub offers: Vec<OfferView>,
}

/// A sealed session, without anything secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// `host` or `guest`.
    pub role: String,
    /// `legacy` or `own`.
    pub mode: String,
    /// `waiting`, `keyed`, `confirmed` or `peer_gone`.
    pub state: String,
    /// The first 12 digits of the routing id.
    pub routing: String,
    /// The relay.
    pub relay: String,
    /// The first 8 digits of the other side's id, where it is known.
    pub peer: Option<String>,
    /// Words that both sides may compare, where the mode has them.
    pub verification: Option<String>,
    /// How far the sides are with pinning each other; absent where they cannot.
    pub pin: Option<PinState>,
    /// When it was opened, Unix milliseconds.
    pub opened_at: u64,
    /// When it ends without a sign of life, Unix milliseconds.
    pub expires_at: u64,
}

/// How far two sides are with pinning each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinState {
    /// `none`, `asked`: this side agreed and the other side's card is awaited, `waiting`: its card came
    /// and waits for this side's word, or `pinned`.
    pub state: String,
    /// The key on its card.
    pub key: Option<String>,
    /// What it calls itself; foreign text.
    pub name: Option<String>,
    /// Its name here, once it is pinned.
    pub petname: Option<String>,
}

/// What became of the operator's word about pinning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pinned {
    /// The key that is a peer now; absent while the other side's card is awaited.
    pub key: Option<String>,
    /// Its name here.
    pub petname: Option<String>,
}

/// A file that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfferView {
    /// The offer's id.
    pub id: String,
    /// The peer's name of it; foreign text.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What kind of file its name says.
    pub file_type: String,
    /// SHA-256 of its bytes, hex.
    pub sha256: String,
    /// The first 8 digits of the sender's id, where it is known.
    pub from: Option<String>,
    /// Names of the rules that found something in it.
    pub findings: Vec<String>,
    /// When it came, Unix milliseconds.
    pub at: u64,
}

/// A file that waits, as far as the human looks into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// The file.
    pub offer: OfferView,
    /// What the sender says about it; foreign text.
    pub note: String,
    /// Its beginning; foreign text.
    pub preview: String,
    /// Whether the preview is not all of it.
    pub cut: bool,
    /// Where it would be written.
    pub folder: String,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Where.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// SHA-256 of its bytes, hex.
    pub sha256: String,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The question is none.
    BadRequest,
    /// No file with this id waits.
    NoSuchOffer,
    /// The file has another hash than the one that was shown, or the other side another key.
    OtherBytes,
    /// Somebody decided otherwise before.
    DecidedBefore,
    /// There is no session to end.
    NoSession,
    /// The file could not be written; it still waits.
    NotWritten,
    /// It took too long, or failed otherwise.
    Failed,
}

/// Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failed {
    /// What kind of trouble.
    pub trouble: Trouble,
    /// More about it, in words of this program.
    pub text: String,
}

impl Failed {
    /// Trouble with a few words.
    #[must_use]
    pub fn new(trouble: Trouble, text: impl Into<String>) -> Failed {
        let text = text.into();
        Failed { trouble, text }
    }
}

/// Who carries out what the operator wants. Calls may come at once and in any order; each MUST end in
/// bounded time. What is accepted or declined here was decided by the operator on a terminal, and is
/// recorded as that before anything follows from it.
pub trait Desk: Send + Sync + 'static {
    /// The session, and the files that wait.
    fn list(&self) -> impl Future<Output = Listed> + Send;
    /// One file that waits.
    fn show(&self, id: &str) -> impl Future<Output = Result<Shown, Failed>> + Send;
    /// Writes a file whose hash is this one.
    fn accept(
        &self,
        id: &str,
        sha256: [u8; 32],
    ) -> impl Future<Output = Result<Accepted, Failed>> + Send;
    /// Throws a file away whose hash is this one.
    fn decline(
        &self,
        id: &str,
        sha256: [u8; 32],
    ) -> impl Future<Output = Result<(), Failed>> + Send;
    /// Makes a peer of the other side, if its session and its key are those that were shown.
    fn pin(
        &self,
        routing: &str,
        key: Option<&str>,
        petname: Option<&str>,
    ) -> impl Future<Output = Result<Pinned, Failed>> + Send;
    /// Ends the session; says whether there was one.
    fn end(&self) -> impl Future<Output = Result<bool, Failed>> + Send;
}

/// The socket of this process. It is removed when this is dropped.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

/// The folder of the sockets of an identity, beside its store.
#[must_use]
pub fn folder(store: &Path) -> PathBuf {
    store.with_file_name("run")
}

impl Control {
    /// Opens the socket of this process in a folder, which is made where it is missing. Sockets of
    /// processes that are gone are removed.
    ///
    /// # Errors
    ///
    /// When the folder is not its user's own, or a process answers under this one's name.
    pub fn open(folder: &Path) -> io::Result<Control> {
        make_folder(folder)?;
        let opened = private_folder(folder)?;
        for (_, path) in sockets(folder) {
            remove_stale(&path, &opened);
        }
        let name = format!("{PREFIX}{}{SUFFIX}", std::process::id());
        let path = folder.join(&name);
        let listener = UnixListener::bind(short(&opened, &path)?)?;
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Control { listener, path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers until it is dropped. Connections of other users are closed without a word.
    pub async fn serve<D: Desk>(&self, desk: Arc<D>) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => {
                    let desk = Arc::clone(&desk);
                    tokio::spawn(async move {
                        let _ = answer(stream, desk.as_ref()).await;
                        drop(permit);
                    });
                }
                Ok(_) => tracing::warn!("another user asked about a sealed session"),
                // As when there are no file descriptors left.
                Err(e) => {
                    tracing::debug!("control socket: {e}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|cred| cred.uid() == me)
}

/// One question, one answer.
async fn answer<D: Desk>(mut stream: UnixStream, desk: &D) -> io::Result<()> {
    let (reading, mut writing) = stream.split();
    let limit = u64::try_from(MAX_REQUEST_BYTES).unwrap_or(u64::MAX);
    let mut reader = BufReader::new(reading.take(limit + 1));
    let mut line = vec![];
    match tokio::time::timeout(PATIENCE, reader.read_until(b'\n', &mut line)).await {
        Ok(Ok(1..)) => {}
        _ => return Ok(()),
    }
    let reply = match serde_json::from_slice::<Request>(&line) {
        _ if line.len() > MAX_REQUEST_BYTES => bad("the question is too long"),
        Ok(request) => {
            let done = tokio::time::timeout(WORK, carry_out(desk, &request)).await;
            let late = |_| failed(Trouble::Failed, "the server did not answer in time");
            done.unwrap_or_else(late)
        }
        Err(e) => bad(&format!("not a question: {e}")),
    };
    // Foreign text does no harm either to whoever reads the socket by other means.
    let mut text = visible_json(&serde_json::to_string(&reply)?).into_owned();
    if text.len() >= MAX_REPLY_BYTES {
        text = serde_json::to_string(&failed(Trouble::Failed, "the answer is too long"))?;
    }
    text.push('\n');
    let sent = async {
        writing.write_all(text.as_bytes()).await?;
        writing.shutdown().await
    };
    match tokio::time::timeout(PATIENCE, sent).await {
        Ok(sent) => sent,
        Err(_) => Ok(()),
    }
}

async fn carry_out<D: Desk>(desk: &D, request: &Request) -> Reply {
    let done = match request {
        Request::List {} => return Reply::Listed(desk.list().await),
        Request::Show { id } => desk.show(id).await.map(Reply::Shown),
        Request::Accept { id, sha256 } => match digest(sha256) {
            Some(sha256) => desk.accept(id, sha256).await.map(Reply::Accepted),
            None => return bad("sha256 is not 64 hex digits"),
        },
        Request::Decline { id, sha256 } => match digest(sha256) {
            Some(sha256) => desk.decline(id, sha256).await.map(|()| Reply::Declined {}),
            None => return bad("sha256 is not 64 hex digits"),
        },
        Request::Pin {
            routing,
            key,
            petname,
        } => {
            let pinned = desk.pin(routing, key.as_deref(), petname.as_deref()).await;
            pinned.map(Reply::Pinned)
        }
        Request::End {} => desk.end().await.map(|was_open| Reply::Ended { was_open }),
    };
    done.unwrap_or_else(Reply::Failed)
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok()
}

fn failed(trouble: Trouble, text: &str) -> Reply {
    Reply::Failed(Failed::new(trouble, text))
}

fn bad(text: &str) -> Reply {
    failed(Trouble::BadRequest, text)
}

/// The sockets in a folder with the processes that made them, by process.
#[must_use]
pub fn sockets(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let mut all: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let pid = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            Some((pid.parse().ok()?, entry.path()))
        })
        .collect();
    all.sort();
    all
}

/// The folder, opened; refused where others could put a socket into it.
fn private_folder(folder: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::MetadataExt as _;
    let opened = std::fs::File::open(folder)?;
    let meta = opened.metadata()?;
    let mine = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_dir() || !mine || meta.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "{} must be a folder for its owner only (0700)",
            folder.display()
        )));
    }
    Ok(opened)
}

/// A name for a socket that fits what the system allows: through the open folder where the path is too
/// long.
fn short(folder: &std::fs::File, path: &Path) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok(path.to_owned());
    }
    if cfg!(target_os = "linux") {
        let name = path.file_name().unwrap_or_default();
        return Ok(PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name));
    }
    Err(io::Error::other(format!(
        "{} is too long for a socket",
        path.display()
    )))
}

/// Removes a socket that nobody answers at.
fn remove_stale(path: &Path, folder: &std::fs::File) {
    let Ok(name) = short(folder, path) else {
        return;
    };
    let refused = std::os::unix::net::UnixStream::connect(name)
        .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    if refused {
        let _ = std::fs::remove_file(path);
    }
}

/// Why a running server gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody listens there.
    #[error("nobody answers at {}: {source}", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The answer did not come, or is none.
    #[error("the server at {} gave no answer: {reason}", path.display())]
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Asks a running server. Blocks, at most as long as the server may take.
///
/// # Errors
///
/// [`AskError`]. A server that says no is an answer.
pub fn ask(path: &Path, request: &Request) -> Result<Reply, AskError> {
    use std::io::{BufRead as _, Read as _, Write as _};
    let nobody = |source| AskError::Nobody {
        path: path.to_owned(),
        source,
    };
    let no_answer = |reason: String| AskError::NoAnswer {
        path: path.to_owned(),
        reason,
    };
    let folder = private_folder(path.parent().unwrap_or_else(|| Path::new("."))).map_err(nobody)?;
    let name = short(&folder, path).map_err(nobody)?;
    let mut stream = std::os::unix::net::UnixStream::connect(name).map_err(nobody)?;
    let mut line = serde_json::to_vec(request).map_err(|e| no_answer(e.to_string()))?;
    line.push(b'\n');
    let limit = u64::try_from(MAX_REPLY_BYTES).unwrap_or(u64::MAX);
    let mut text = vec![];
    let asked = stream
        .set_read_timeout(Some(WORK + PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .and_then(|()| stream.write_all(&line))
        .and_then(|()| {
            let mut reader = std::io::BufReader::new(stream.take(limit + 1));
            reader.read_until(b'\n', &mut text)
        });
    asked.map_err(|e| no_answer(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| no_answer(e.to_string()))
}
