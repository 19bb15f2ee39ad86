//! Reading `audit.log` line by line, whole files or what comes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::error::AdminError;
use super::super::print::Printer;
use super::Shower;
use crate::agent::bond::audit::FILE_NAME;
use crate::types::limit::MAX_AUDIT_LINE_BYTES;

/// Time between two looks.
const POLL: Duration = Duration::from_millis(100);

/// Gets each line: its file, its number in it, its bytes without the line feed.
pub(super) type EachLine<'a> = &'a mut dyn FnMut(&str, u64, &[u8]);

/// One folder's files, read up to some point.
pub(super) struct Tail {
    folder: PathBuf,
    /// The current file, while it is read.
    open: Option<Open>,
}

struct Open {
    reader: BufReader<File>,
    name: String,
    line: u64,
    /// The beginning of a line whose end did not come yet.
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn new(folder: PathBuf) -> Tail {
        Tail { folder, open: None }
    }

    /// Reads a file to its end; a last line without an end counts. The next round goes on behind it.
    pub(super) fn whole_file(&mut self, path: &Path, each: EachLine<'_>) -> Result<(), AdminError> {
        let mut open = open(path)?;
        open.drain(each).map_err(|source| AdminError::Place {
            place: path.to_owned(),
            source,
        })?;
        self.open = Some(open);
        Ok(())
    }

    /// Gives the fragment at the end, if there is one.
    pub(super) fn fragment(&mut self, each: EachLine<'_>) {
        if let Some(open) = &mut self.open
            && !open.rest.is_empty()
        {
            open.line += 1;
            let rest = std::mem::take(&mut open.rest);
            each(&open.name, open.line, &rest);
        }
    }

    /// What came since.
    fn turn(&mut self, each: EachLine<'_>) -> Result<(), AdminError> {
        let current = self.folder.join(FILE_NAME);
        let failed = |source| AdminError::Place {
            place: self.folder.clone(),
            source,
        };
        if let Some(open) = &mut self.open {
            open.drain(each).map_err(failed)?;
        }
        let replaced = match (&self.open, File::open(&current)) {
            (Some(open), Ok(now)) => !same(open.reader.get_ref(), &now),
            (None, Ok(_)) => true,
            (_, Err(_)) => false,
        };
        if replaced {
            if let Some(open) = &mut self.open {
                open.drain(each).map_err(failed)?;
            }
            self.whole_file(&current, each)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn same(a: &File, b: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same(_a: &File, _b: &File) -> bool {
    true
}

fn open(path: &Path) -> Result<Open, AdminError> {
    let file = File::open(path).map_err(|source| AdminError::Place {
        place: path.to_owned(),
        source,
    })?;
    Ok(Open {
        reader: BufReader::new(file),
        name: path.display().to_string(),
        line: 0,
        rest: vec![],
    })
}

impl Open {
    fn drain(&mut self, each: EachLine<'_>) -> std::io::Result<()> {
        loop {
            let room = MAX_AUDIT_LINE_BYTES.saturating_sub(self.rest.len()).max(1);
            let limit = u64::try_from(room).unwrap_or(u64::MAX);
            let read = self
                .reader
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut self.rest)?;
            if read == 0 {
                return Ok(());
            }
            let ended = self.rest.last() == Some(&b'\n');
            if ended || self.rest.len() >= MAX_AUDIT_LINE_BYTES {
                self.line += 1;
                let line = std::mem::take(&mut self.rest);
                each(
                    &self.name,
                    self.line,
                    line.strip_suffix(b"\n").unwrap_or(&line),
                );
            }
        }
    }
}

/// Shows what comes until interrupted.
pub(super) fn follow(
    tails: &mut [Tail],
    shown: &mut Shower,
    stop: &AtomicBool,
    p: &mut Printer,
) -> Result<(), AdminError> {
    while !stop.load(Ordering::Relaxed) {
        for tail in tails.iter_mut() {
            let mut lines = vec![];
            tail.turn(&mut |file, line, text| lines.push((file.to_owned(), line, text.to_vec())))?;
            for (file, line, text) in lines {
                shown.show(p, &file, line, &text)?;
            }
        }
        p.flush()?;
        std::thread::sleep(POLL);
    }
    Ok(())
}
