//! A file that comes in pieces, after a human agreed to it: under a hidden name until it is whole.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use super::{Incoming, IncomingError, Placed};
use crate::domain::bond::names::BaseName;

/// An accepted file of which pieces are missing. Removed on drop; what a killed process leaves
/// behind is removed by the next [`Incoming::open`].
#[derive(Debug)]
pub struct Arriving {
    incoming: Arc<Incoming>,
    hidden: String,
    /// Locked. Gone once the file has its name.
    file: Option<File>,
}

impl Arriving {
    /// Makes the hidden file (0600). Only after consent.
    ///
    /// # Errors
    ///
    /// [`IncomingError`]; the directory is as it was then.
    pub fn begin(incoming: &Arc<Incoming>) -> Result<Arriving, IncomingError> {
        let hidden = incoming.hidden()?;
        let file = incoming.0.create(&hidden)?;
        Ok(Arriving {
            incoming: Arc::clone(incoming),
            hidden,
            file: Some(file),
        })
    }

    /// Appends a piece. Not durable before [`Arriving::finish`].
    ///
    /// # Errors
    ///
    /// [`IncomingError::Io`]: the file is of no use any more, drop it.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), IncomingError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.write_all(bytes).map_err(|source| IncomingError::Io {
            path: self.incoming.0.path().to_owned(),
            source,
        })
    }

    /// Gives the whole file its name, as [`Incoming::place`] does. When this returns, bytes and name
    /// are on the disk.
    ///
    /// # Errors
    ///
    /// [`IncomingError`]; nothing of the file is left then.
    pub fn finish(mut self, name: &BaseName) -> Result<Placed, IncomingError> {
        let incoming = Arc::clone(&self.incoming);
        let file = self.file.take().map_or_else(
            || Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
            |file| file.sync_all().map(|()| file),
        );
        let file = file.map_err(|source| IncomingError::Io {
            path: incoming.0.path().to_owned(),
            source,
        });
        let staged = incoming.0.adopt(std::mem::take(&mut self.hidden), file)?;
        incoming.publish(&staged, name)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            self.incoming.0.discard(&self.hidden);
        }
    }
}
