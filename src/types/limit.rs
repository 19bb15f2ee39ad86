//! Every bound of the system, in one place, with its unit and its reason.
//!
//! A bound is enforced twice: at the edge, before anything is parsed or allocated, and again where
//! the decision is made.

/// Largest HTTP request body in bytes. Given by the wire: exactly 2 MiB passes, one more is 413.
pub const MAX_HTTP_BODY_BYTES: usize = 2 * 1024 * 1024;

/// Longest queue name (`to`, `me`) in bytes. A route is a 43-byte key, `#` and a session id of at
/// most [`MAX_SESSION_ID_BYTES`]; the rest is room for other clients of the bus.
pub const MAX_QUEUE_NAME_BYTES: usize = 512;

/// Longest session id in bytes; the public program's directory ignores longer ones.
pub const MAX_SESSION_ID_BYTES: usize = 256;

/// Longest message id in bytes that is stored. The usual one is 32 hex digits.
pub const MAX_MSG_ID_BYTES: usize = 256;

/// Largest encoded event body in the log, in bytes. Message bodies are not in the log.
pub const MAX_EVENT_BYTES: usize = 256 * 1024;

/// Largest stored table row in bytes (bincode-encoded value).
pub const MAX_ROW_BYTES: usize = 256 * 1024;

/// Largest announcement the bus keeps, in bytes of JSON.
pub const MAX_ANNOUNCEMENT_BYTES: usize = 64 * 1024;

/// Commands in one transaction of the writer. At 64 connections a batch is what arrived during
/// the last sync; beyond some hundreds the gain is flat and the tail latency grows.
pub const MAX_BATCH_COMMANDS: usize = 512;

/// Bytes of message bodies in one transaction of the writer.
pub const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Commands that may wait for the writer. Past it callers are told to come back.
pub const MAX_WAITING_COMMANDS: usize = 4096;

/// Bytes of message bodies that may wait for the writer.
pub const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Acknowledged positions in one `Acked` record.
pub const MAX_ACKS_PER_RECORD: usize = 4096;

/// Messages in one `/recv` answer.
pub const MAX_RECV_BATCH: usize = 256;

/// Bytes of bodies in one `/recv` answer (at least one message is always given).
pub const MAX_RECV_BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Longest wait of one `/recv`, in milliseconds.
pub const MAX_RECV_WAIT_MS: u64 = 60_000;

/// Wait of a `/recv` that names none, in milliseconds. Given by the wire.
pub const DEFAULT_RECV_WAIT_MS: u64 = 25_000;

/// Sessions on the presence board.
pub const MAX_ROSTER_ENTRIES: usize = 4096;

/// Announcements on the presence board, in bytes of JSON altogether. The whole board is one
/// answer, and what a client reads of an answer is bounded too.
pub const MAX_ROSTER_BYTES: usize = 4 * 1024 * 1024;

/// Age in milliseconds at which a session leaves the presence board: three days.
pub const PRESENCE_RETENTION_MS: u64 = 259_200_000;

/// Sessions of one key on a board that checks signatures. More than anybody runs at a time.
pub const MAX_SESSIONS_PER_KEY: usize = 64;

/// Furthest an announcement may be signed in the past on a board that checks signatures, in
/// milliseconds: 24 h. Signed times are remembered for as long, also of sessions that have left.
pub const MAX_PAST_PRESENCE_MS: u64 = 86_400_000;

/// Signed times that a board remembers, the oldest give way: all who are there, and as many that
/// have left.
pub const MAX_PRESENCE_TIMES: usize = 2 * MAX_ROSTER_ENTRIES;

/// Furthest a message may be signed in the future, in milliseconds.
pub const MAX_FUTURE_MS: u64 = 60_000;

/// Furthest an admitted peer's message may be signed in the past, in milliseconds: 14 days, so
/// that a laptop may sleep through a holiday.
pub const MAX_PAST_PEER_MS: u64 = 14 * 86_400_000;

/// Furthest a stranger's pairing message may be signed in the past, in milliseconds: 24 h.
pub const MAX_PAST_STRANGER_MS: u64 = 86_400_000;

/// Largest secret key file in bytes. A key is 44; the rest is room for blank lines.
pub const MAX_KEY_FILE_BYTES: usize = 4096;

/// Largest `peers.json` in bytes.
pub const MAX_PEERS_FILE_BYTES: usize = 1024 * 1024;

/// Longest petname that our tools create, in characters. Names are read by people and models.
pub const MAX_PETNAME_CHARS: usize = 64;

/// Longest task id in bytes. It is kept in log records, unlike the text of a message.
pub const MAX_TASK_ID_BYTES: usize = 1024;

/// Bytes of a too large request body that the bus reads and throws away, so that the connection
/// can carry the refusal and go on. Past it the connection is closed after the answer.
pub const MAX_DRAIN_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of request bodies that a bus reads at a time, beyond the first
/// [`FREE_BODY_BYTES`] of each. Past it callers are told to come back.
pub const MAX_READING_BYTES: usize = 256 * 1024 * 1024;

/// The first bytes of a request body, which need no room in [`MAX_READING_BYTES`]: slow senders of
/// large bodies do not stop usual mail.
pub const FREE_BODY_BYTES: usize = 64 * 1024;

/// Longest time for a request body to arrive, in milliseconds.
pub const MAX_BODY_WAIT_MS: u64 = 30_000;

/// Longest time between two requests of a connection, the next one's head included, in
/// milliseconds. Longer than the 90 s after which usual clients drop idle connections themselves.
pub const MAX_IDLE_MS: u64 = 120_000;

/// Open connections of a bus. Further ones wait in the system's backlog.
pub const MAX_CONNECTIONS: usize = 8192;

/// Rows or records in one answer of the admin endpoint.
pub const MAX_ADMIN_ROWS: usize = 1000;

/// Rows in one answer of the admin endpoint for which the log is replayed: every page costs a replay,
/// so there are few of them.
pub const MAX_REPLAYED_ROWS: usize = 100_000;

/// Messages that one sweep drops for their age.
pub const MAX_EXPIRE_BATCH: usize = 4096;

/// Largest signed message in bytes of JSON. The rest of [`MAX_HTTP_BODY_BYTES`] is the envelope
/// around it: `{"payload":...,"to":...}` with a queue name whose every byte may need escaping.
pub const MAX_MESSAGE_BYTES: usize = MAX_HTTP_BODY_BYTES - 4096;

/// Longest name in a `peers.json` that a person wrote, in bytes; our tools keep to
/// [`MAX_PETNAME_CHARS`].
pub const MAX_PETNAME_BYTES: usize = 1024;

/// Keys that an identity admits, and as many tombstones of revoked ones. The whole list is read
/// and written as one small file.
pub const MAX_PEERS: usize = 1024;

/// Entries of a hand edit of `peers.json` that do not count and are remembered, to be shown.
pub const MAX_HELD_PEERS: usize = 64;

/// Relays of one outgoing message.
pub const MAX_RELAYS: usize = 16;

/// Longest relay URL in bytes.
pub const MAX_RELAY_URL_BYTES: usize = 512;

/// Longest key of a delivery that is acknowledged, in bytes: a queue name and a number, and room
/// for what other relays use. It is remembered for a while and sent back.
pub const MAX_ACK_KEY_BYTES: usize = 2 * MAX_QUEUE_NAME_BYTES;

/// Longest path of a file that is remembered, in bytes: what systems allow.
pub const MAX_PATH_BYTES: usize = 4096;

/// Longest text of a relay's error or refusal that is kept, in bytes.
pub const MAX_REASON_BYTES: usize = 256;

/// Messages of an identity that no relay has taken yet.
pub const MAX_OUTBOX_MESSAGES: usize = 4096;

/// Bytes of messages of an identity that no relay has taken yet.
pub const MAX_OUTBOX_BYTES: u64 = 64 * 1024 * 1024;

/// Messages to one recipient that no relay has taken yet, so that one silent recipient does not
/// use up the outbox of all.
pub const MAX_OUTBOX_PER_RECIPIENT: usize = 1024;

/// Unread messages of one session; past it mail stays on the bus. Given by the public program.
pub const MAX_UNREAD_MESSAGES: usize = 4096;

/// Bytes of unread messages of one session; past it mail stays on the bus.
pub const MAX_UNREAD_BYTES: u64 = 32 * 1024 * 1024;

/// Messages that came too late and are still shown; the oldest gives way.
pub const MAX_EXPIRED_ROWS: usize = 256;

/// Strangers' requests to be admitted that wait for a decision; the oldest gives way once it is
/// older than [`PAIR_KEEPS_PLACE_MS`]. Given by the public program.
pub const MAX_PAIR_INBOUND: usize = 64;

/// How long a stranger's request keeps its place in a full list, in milliseconds. Keys cost nothing:
/// without it whoever makes many of them pushes an honest request out at once, and writes the log
/// as fast as a relay delivers.
pub const PAIR_KEEPS_PLACE_MS: u64 = 10 * 60_000;

/// Requests of ours to be admitted that wait for an answer or, accepted, for the operator. Given
/// by the public program, which forgets the oldest; here the next one is refused.
pub const MAX_PAIR_OUTBOUND: usize = 64;

/// Age in milliseconds at which a request to be admitted is void, in both directions: 14 days.
pub const PAIR_TTL_MS: u64 = 14 * 86_400_000;

/// Longest name that a stranger may claim, in characters; what is longer is cut. As long as a
/// petname may be.
pub const MAX_CLAIMED_NAME_CHARS: usize = MAX_PETNAME_CHARS;

/// Strangers' requests that may wake somebody while none of them is decided. Keys cost nothing, so
/// whoever makes many of them must not be able to wake a host for each.
pub const MAX_WAKING_KNOCKS: usize = 8;

/// Decided requests that are remembered, so that a late copy of one is not taken for a new one;
/// the oldest is forgotten.
pub const MAX_PAIR_ANSWERED: usize = 1024;

/// How much later than the answered copy a repeated request of an admitted key must be signed to
/// get another answer, in milliseconds: copies on other relays do not, a repetition on purpose does.
pub const PAIR_ANSWER_AGAIN_MS: u64 = 10 * 60_000;

/// What one recorded knock of a waiting key costs of its time, in milliseconds. Whoever has used up
/// [`KNOCK_SHARE_MS`] is heard, and not recorded: eight records at once, later one for each of these.
pub const KNOCK_RECORD_MS: u64 = 75_000;

/// How far ahead of now a key may use up its time, in milliseconds: ten minutes. A request that is
/// called off and made anew a few times in a row counts at once all the same.
pub const KNOCK_SHARE_MS: u64 = 8 * KNOCK_RECORD_MS;

/// What an answer to a request of a peer costs of that peer's time, in milliseconds, whatever ids its
/// requests have: two in a row, later one in five minutes. Two, because a side that asks anew while
/// the other one settles what it asked before needs both.
pub const PAIR_ANSWER_EVERY_MS: u64 = 5 * 60_000;

/// Age in milliseconds of a signature at which an unsent pairing message is signed anew: the
/// longest wait between two attempts, so that each is made with a fresh one once a relay is down.
pub const CONTROL_RESIGN_MS: u64 = 60_000;

/// Keys whose requests are ignored.
pub const MAX_BLOCKED_KEYS: usize = 1024;

/// Unseen news about pairing of an identity; the oldest gives way.
pub const MAX_PAIR_NEWS: usize = 256;

/// First wait after a relay failed, in milliseconds.
pub const RELAY_BACKOFF_MIN_MS: u64 = 1_000;

/// Longest wait after a relay failed, in milliseconds, before jitter.
pub const RELAY_BACKOFF_MAX_MS: u64 = 60_000;

/// Wait in milliseconds until an accepted notice that nobody followed up is offered once more.
pub const NOTICE_SECOND_OFFER_MS: u64 = 5 * 60_000;

/// Wait in milliseconds between later offers of a notice that nobody followed up.
pub const NOTICE_LATER_OFFER_MS: u64 = 30 * 60_000;

/// Wait in milliseconds before a notice that stands in a host's own queue is queued once more.
pub const NOTICE_QUEUED_OFFER_MS: u64 = 6 * 3_600_000;

/// Wait in milliseconds before another way is tried, when the one that was used never proved to
/// work and there is another. A model needs some seconds to follow a notice up.
pub const NOTICE_UNPROVEN_MS: u64 = 60_000;

/// Waits in milliseconds between failed or unfinished hand-offs of a notice; the last one repeats.
pub const NOTICE_RETRY_MS: [u64; 5] = [30_000, 60_000, 120_000, 240_000, 300_000];

/// Age in milliseconds of an announcement below which its session counts as live. Given by the
/// wire.
pub const LIVE_MS: u64 = 90_000;

/// How far the clocks of two machines may differ before a signed time counts against a session, in
/// milliseconds. For that long after its end a replayed announcement can still look fresh to
/// somebody who never saw it before.
pub const CLOCK_SLACK_MS: u64 = 120_000;

/// How often the newest announcement of a session that stays live is recorded, in milliseconds.
pub const SIGHTING_REFRESH_MS: u64 = 600_000;

/// Sessions in the directory of an identity; the one that was not seen or used for longest gives
/// way.
pub const MAX_DIRECTORY_SESSIONS: usize = 4096;

/// Sessions in the directory that one key owns, so that one peer cannot push out the others'.
pub const MAX_DIRECTORY_PER_KEY: usize = 256;

/// Keys that are remembered as claiming one session id.
pub const MAX_CLAIMANTS: usize = 8;

/// Sightings in one record, and session ids in one that forgets them.
pub const MAX_SIGHTINGS_PER_RECORD: usize = 256;

/// Age in milliseconds at which a session that was neither seen nor written to leaves the
/// directory: 90 days.
pub const DIRECTORY_RETENTION_MS: u64 = 90 * 86_400_000;

/// Tasks of one session that are remembered; ended ones give way first.
pub const MAX_TASKS_PER_SESSION: usize = 512;

/// Rows that one record of forgetting a peer erases.
pub const MAX_ERASED_PER_RECORD: usize = 2048;

/// Ended tasks that one record of forgetting history names: each has texts.
pub const MAX_ENDED_TASKS_PER_RECORD: usize = 64;

/// After so many young messages in order of arrival no older one is looked for.
pub const MAX_YOUNG_ROWS_IN_A_ROW: usize = 1024;

/// Bytes of JSON of a tool's answer, where the host is Codex. It cuts the middle out of anything
/// that is much longer than ten thousand bytes, and what is cut out is not read; the rest of those
/// is room for what any answer may carry beside its own.
pub const MAX_RESULT_BYTES_CODEX: usize = 6 * 1024;

/// Bytes of JSON of a tool's answer, where the host is Claude Code. It takes more, but whatever it
/// takes fills the context of a model.
pub const MAX_RESULT_BYTES_CLAUDE: usize = 96 * 1024;

/// Bytes of JSON of a tool's answer, where nothing is known of the host.
pub const MAX_RESULT_BYTES_OTHER: usize = 64 * 1024;

/// Characters of a tool's answer that Claude Code is asked to pass on whole: room for notes beside
/// [`MAX_RESULT_BYTES_CLAUDE`].
pub const DECLARED_RESULT_CHARS: usize = 2 * MAX_RESULT_BYTES_CLAUDE;

/// Requests of a host that are worked on, or whose answers it has not read. Past it nothing more is
/// read from it: hosts run a few tools at a time.
pub const MAX_CALLS_IN_FLIGHT: usize = 64;

/// Longest id that a bus notes about a payload without having verified it, in bytes.
pub const MAX_HINT_BYTES: usize = 64;

/// Largest state file of the public program that is read, in bytes. It keeps a mailbox of 32 MiB.
pub const MAX_IMPORTED_FILE_BYTES: usize = 64 * 1024 * 1024;

/// State files of the public program that are read of one folder.
pub const MAX_IMPORTED_FILES: usize = 4096;

/// Messages in the queues of a public bus that are read.
pub const MAX_IMPORTED_MESSAGES: usize = 1 << 20;

/// Largest message in the queues of a public bus, in bytes: a request body, and its time.
pub const MAX_IMPORTED_MESSAGE_BYTES: usize = MAX_HTTP_BODY_BYTES + 4096;

/// Things in one command of an import.
pub const MAX_IMPORTED_PER_COMMAND: usize = 64;

/// Bytes of messages in one command of an import; at least one message is always taken.
pub const MAX_IMPORTED_BYTES_PER_COMMAND: usize = 4 * 1024 * 1024;

/// Sealed sessions that are remembered in rows; the log has them all.
pub const MAX_BOND_ROWS: usize = 512;

/// Files offered in sealed sessions that are remembered in rows.
pub const MAX_BOND_OFFER_ROWS: usize = 1024;

/// Longest name of an offered or sent file in a record, spelled out, in bytes.
pub const MAX_BOND_NAME_BYTES: usize = 256;

/// Longest id of an offered file in bytes.
pub const MAX_BOND_OFFER_ID_BYTES: usize = 64;

/// Longest name of a call, a kind of file or a finding rule in a record of sealed sessions, in bytes.
pub const MAX_BOND_CALL_BYTES: usize = 64;

/// Finding rules that a record of an offered file names.
pub const MAX_BOND_RULES: usize = 16;

/// Rows of table `sealed_peers`.
pub const MAX_SEALED_PEERS: usize = 1024;

/// Size in bytes at which `audit.log` is set aside and a new one begins.
pub const MAX_AUDIT_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Files of `audit.log` that were set aside and are kept.
pub const MAX_AUDIT_FILES: usize = 8;

/// Longest line of `audit.log` that is read, in bytes.
pub const MAX_AUDIT_LINE_BYTES: usize = 64 * 1024;
/// Largest body of a relay's `/create` and `/join` in bytes. Given by the wire, as all `RELAY`
/// bounds are unless they say otherwise.
pub const MAX_RELAY_OPEN_BYTES: usize = 10_240;

/// Largest body of a relay's `/send` in bytes.
pub const MAX_RELAY_SEND_BYTES: usize = 5_242_880;

/// Largest body of a relay's `/disconnect` in bytes.
pub const MAX_RELAY_DISCONNECT_BYTES: usize = 1_024;

/// Deepest nesting of JSON that a relay takes. Ours: honest payloads have one level.
pub const MAX_RELAY_DEPTH: usize = 128;

/// How long a relay session lives after its last activity, in milliseconds.
pub const RELAY_TTL_MS: u64 = 30 * 60_000;

/// Peers in a relay session.
pub const RELAY_PEERS: usize = 2;

/// Messages in a relay session, system messages included; the oldest give way.
pub const RELAY_QUEUE: usize = 100;

/// Messages that one peer may send into a session within [`RELAY_SEND_WINDOW_MS`].
pub const RELAY_SENDS: usize = 10;

/// See [`RELAY_SENDS`]; milliseconds, sliding.
pub const RELAY_SEND_WINDOW_MS: u64 = 60_000;

/// A poll prolongs its session at most this often, in milliseconds.
pub const RELAY_TOUCH_MS: u64 = 60_000;

/// Messages in one answer to a poll, in UTF-16 code units of their JSON; one is always given.
pub const RELAY_POLL_UNITS: usize = 1_048_576;

/// How long a poll without news is held, in milliseconds. Clients poll every 5 s and do not expect
/// two of their polls to overlap. Ours.
pub const RELAY_HOLD_MS: u64 = 4_000;

/// What a relay session has room for beside one message of the largest size: who its peers are, and
/// salts. Ours.
pub const RELAY_SESSION_SPARE_BYTES: u64 = 4_096;

/// Messages that wait in a session of flow `interlink-1`; past it senders come back. Ours.
pub const RELAY_FLOW_MESSAGES: usize = 2_048;

/// Bytes of relay messages on their way to the writer, so that they never fill its line. Ours.
pub const MAX_RELAY_WAITING_BYTES: usize = 8 * 1024 * 1024;

/// Open connections of a relay. Further ones wait in the system's backlog. Ours.
pub const MAX_RELAY_CONNECTIONS: usize = 2_048;

/// Network addresses whose requests a relay counts, where it does; the oldest give way. Ours.
pub const MAX_RELAY_ADDRESSES: usize = 4_096;

/// Relay sessions that one sweep ends for their age.
pub const MAX_RELAY_EXPIRE_BATCH: usize = 64;
