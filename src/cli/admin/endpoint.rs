//! A running bus as a [`StoreReader`], through its admin endpoint.
//!
//! The bus leaves a file beside its store with its address and a secret (see
//! [`AdminFile`]). Answers are bounded; proxies of the environment and redirects are not followed,
//! since the secret is for the bus alone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::error::AdminError;
use super::reader::{
    BusNumbers, KnownSessionView, Origin, OutboxView, Running, Source, StoreReader, StoreStatus,
};
use crate::domain::tables::TableId;
use crate::event::kind::StoreKind;
use crate::store::Cut;
use crate::types::limit::{MAX_ADMIN_ROWS, MAX_REPLAYED_ROWS};
use crate::types::seq::Seq;
use crate::wire::admin::{
    AdminFile, Backup, Compaction, Depths, Queues, Records, Status, TableRows, Verification,
};

/// Longest answer in bytes: a full page of the largest events.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// Longest file that names an endpoint, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);

/// How long an answer may take that needs no replay.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a replay may take.
const REPLAY: Duration = Duration::from_secs(3600);

/// How long a turn of `compact` may take: counting what it would take reads much of the log.
const COMPACT: Duration = Duration::from_secs(300);

/// The bus that owns a store does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum EndpointError {
    /// The file that leads to it does not read.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// It answers, and does not do it.
    #[error("the bus at {url} (pid {pid}) refuses: {reason}")]
    Refused {
        /// Where the bus is.
        url: String,
        /// Its process id.
        pid: u32,
        /// Its words.
        reason: String,
    },
    /// No answer, or none that reads.
    #[error("the bus at {url} (pid {pid}): {reason}")]
    Answer {
        /// Where the bus should be.
        url: String,
        /// Its process id.
        pid: u32,
        /// What went wrong.
        reason: String,
    },
}

/// See the module's documentation.
pub(super) struct EndpointReader {
    agent: ureq::Agent,
    file: AdminFile,
    store: Option<PathBuf>,
    origin: Origin,
}

impl EndpointReader {
    /// Reads the endpoint's file and makes sure that the bus answers.
    pub(super) fn open(admin: &Path, store: Option<&Path>) -> Result<EndpointReader, AdminError> {
        let file = read_file(admin).map_err(|source| EndpointError::File {
            path: admin.to_owned(),
            source,
        })?;
        let config = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .build();
        let reader = EndpointReader {
            agent: config.into(),
            file,
            store: store.map(Path::to_owned),
            origin: Origin {
                store: store.map(|path| path.display().to_string()),
                kind: StoreKind::Bus,
                source: Source::Endpoint,
            },
        };
        reader.status_answer()?;
        Ok(reader)
    }

    fn failed(&self, reason: impl ToString) -> AdminError {
        AdminError::Endpoint(EndpointError::Answer {
            url: self.file.url.clone(),
            pid: self.file.pid,
            reason: reason.to_string(),
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}/admin/v1/{path}", self.file.url.trim_end_matches('/'))
    }

    fn authorization(&self) -> String {
        format!("Bearer {}", self.file.token)
    }

    /// Sends a wish and reads the answer.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        wish: &impl serde::Serialize,
    ) -> Result<T, AdminError> {
        let wish = serde_json::to_vec(wish).map_err(|e| self.failed(e))?;
        let request = self.agent.post(self.url(path));
        let request = request.header("authorization", self.authorization());
        let request = request.header("content-type", "application/json");
        let request = request.config().timeout_global(Some(ANSWER)).build();
        self.answer(request.send(&wish))
    }

    /// Reads an answer; `None` where there is nothing of that name.
    pub(super) fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, AdminError> {
        let request = self.agent.get(self.url(path));
        let request = request.header("authorization", self.authorization());
        let request = request.config().timeout_global(Some(ANSWER)).build();
        match request.call() {
            Ok(answer) if answer.status().as_u16() == 404 => Ok(None),
            answer => self.answer(answer).map(Some),
        }
    }

    /// Reads an answer.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AdminError> {
        let request = self.agent.get(self.url(path));
        let request = request.header("authorization", self.authorization());
        let request = request.config().timeout_global(Some(ANSWER)).build();
        self.answer(request.call())
    }

    fn answer<T: DeserializeOwned>(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, AdminError> {
        let mut response = answer.map_err(|e| self.failed(e))?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES);
        let body = body.read_to_vec().map_err(|e| self.failed(e))?;
        if !status.is_success() {
            let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let detail = problem.get("detail").and_then(|d| d.as_str());
            return Err(AdminError::Endpoint(EndpointError::Refused {
                url: self.file.url.clone(),
                pid: self.file.pid,
                reason: format!("{status} {}", detail.unwrap_or_default()),
            }));
        }
        serde_json::from_slice(&body).map_err(|e| self.failed(e))
    }

    /// What the bus has to replay its log for.
    fn slowly<T: DeserializeOwned>(
        &self,
        request: ureq::RequestBuilder<ureq::typestate::WithoutBody>,
    ) -> Result<T, AdminError> {
        let request = request.header("authorization", self.authorization());
        let request = request.config().timeout_global(Some(REPLAY)).build();
        self.answer(request.call())
    }

    /// All rows of a table, page by page.
    fn table(&self, table: TableId, at: Option<Seq>) -> Result<TableRows, AdminError> {
        let mut all = TableRows {
            table: table.name().to_owned(),
            rows: vec![],
        };
        let limit = match at {
            None => MAX_ADMIN_ROWS,
            Some(_) => MAX_REPLAYED_ROWS,
        };
        loop {
            let mut path = format!("tables/{}?limit={limit}", table.name());
            if let Some(at) = at {
                path.push_str(&format!("&at={at}"));
            }
            if let Some(last) = all.rows.last() {
                path.push_str(&format!("&after={}", last.raw));
            }
            let page: TableRows = self.slowly(self.agent.get(self.url(&path)))?;
            // An older bus knows no `after` and would answer the same for ever.
            let goes_on =
                page.rows.len() >= limit && page.rows.iter().all(|row| !row.raw.is_empty());
            all.rows.extend(page.rows);
            if !goes_on {
                return Ok(all);
            }
        }
    }

    /// Lets the bus compact for a moment, or say what that would take.
    pub(super) fn compact(&self, cut: Cut, dry_run: bool) -> Result<Compaction, AdminError> {
        let (until, before) = (cut.until, cut.before.0);
        let path = format!("compact?until={until}&before={before}&dry_run={dry_run}");
        let request = self.agent.post(self.url(&path));
        let request = request.header("authorization", self.authorization());
        let request = request.config().timeout_global(Some(COMPACT)).build();
        self.answer(request.send_empty())
    }

    /// Lets the bus copy its store, and prove the copy.
    pub(super) fn back_up(&self, to: &Path) -> Result<Verification, AdminError> {
        let Some(file) = to.to_str().map(ToOwned::to_owned) else {
            let path = to.to_owned();
            return Err(super::care::CareError::Path { path }.into());
        };
        let body = serde_json::to_vec(&Backup { file }).map_err(io::Error::from)?;
        let request = self.agent.post(self.url("backup"));
        let request = request.header("authorization", self.authorization());
        let request = request.header("content-type", "application/json");
        let request = request.config().timeout_global(Some(REPLAY)).build();
        self.answer(request.send(&body[..]))
    }

    fn status_answer(&self) -> Result<Status, AdminError> {
        self.get("status")
    }
}

fn read_file(path: &Path) -> io::Result<AdminFile> {
    use std::io::Read as _;
    let mut text = vec![];
    std::fs::File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

impl StoreReader for EndpointReader {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn status(&self) -> Result<StoreStatus, AdminError> {
        let status = self.status_answer()?;
        let first = self.records(0, 1)?.records;
        let newest = self.records(status.head, 1)?.records;
        let metadata = self.store.as_ref().and_then(|path| path.metadata().ok());
        Ok(StoreStatus {
            origin: self.origin.clone(),
            file_bytes: metadata.map(|m| m.len()),
            first: first.first().map(|record| record.seq),
            head: status.head,
            head_at: newest.first().map(|record| record.at),
            base: status.base,
            records: status.records,
            log_bytes: status.log_bytes,
            bus: Some(BusNumbers {
                queues: status.queues,
                messages: status.messages,
                bytes: status.bytes,
                drops: status.drops,
                roster: status.roster,
                relay: status.relay,
            }),
            running: Some(Running {
                pid: self.file.pid,
                url: self.file.url.clone(),
                version: status.version,
                uptime_ms: status.uptime_ms,
                commits: status.commits,
                waiters: status.waiters,
                refused: status.refused,
                retain_ms: status.limits.retain_ms,
                retain_bytes: status.limits.retain_bytes,
                health: status.health,
                read_only_reason: status.read_only_reason,
            }),
            agent: None,
        })
    }

    fn records(&self, from: u64, limit: usize) -> Result<Records, AdminError> {
        let limit = limit.min(MAX_ADMIN_ROWS);
        self.get(&format!("records?from={from}&limit={limit}"))
    }

    fn queues(&self) -> Result<Queues, AdminError> {
        self.get("queues")
    }

    fn outbox(&self, _all: bool) -> Result<Vec<OutboxView>, AdminError> {
        self.expect(StoreKind::Agent)?;
        Ok(vec![])
    }

    fn directory(&self) -> Result<Vec<KnownSessionView>, AdminError> {
        self.expect(StoreKind::Agent)?;
        Ok(vec![])
    }

    fn rows(&self, tables: &[TableId], at: Option<Seq>) -> Result<Vec<TableRows>, AdminError> {
        tables.iter().map(|table| self.table(*table, at)).collect()
    }

    fn depths(&self) -> Result<Depths, AdminError> {
        self.slowly(self.agent.get(self.url("depth")))
    }

    fn digest(&self, _body: Seq) -> Result<Option<String>, AdminError> {
        self.expect(StoreKind::Agent)?;
        Ok(None)
    }

    fn verify(&self, _progress: &mut dyn FnMut(u64)) -> Result<Verification, AdminError> {
        let request = self.agent.post(self.url("verify"));
        let request = request.header("authorization", self.authorization());
        let request = request.config().timeout_global(Some(REPLAY)).build();
        self.answer(request.send_empty())
    }
}
