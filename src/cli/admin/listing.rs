//! The frame of the commands that list something of each store of a kind.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::error::AdminError;
use super::file::FileReader;
use super::find::{Named, pick};
use super::locate::{Access, Target};
use super::print::{Printer, note_source};
use super::reader::{StoreReader, owner};
use super::status;
use crate::event::kind::StoreKind;

/// What is listed.
pub(super) struct Listing {
    /// Of which stores.
    pub(super) kind: StoreKind,
    /// What JSON calls it.
    pub(super) name: &'static str,
}

#[derive(Serialize)]
struct Answer<R> {
    stores: Vec<Part<R>>,
}

/// The rows of one store.
struct Part<R> {
    store: Option<String>,
    name: &'static str,
    rows: Vec<R>,
}

impl<R: Serialize> Serialize for Part<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("store", &self.store)?;
        map.serialize_entry(self.name, &self.rows)?;
        map.end()
    }
}

/// A row with the store that it is of.
pub(super) struct Of<R> {
    /// Its store.
    pub(super) store: String,
    /// The row.
    pub(super) row: R,
}

impl<R: Named> Named for Of<R> {
    fn id(&self) -> &str {
        self.row.id()
    }

    fn seq(&self) -> u64 {
        self.row.seq()
    }
}

impl Listing {
    /// The one row of all stores of the kind that `text` means, and the file that it is in.
    pub(super) fn find<R: Named + Clone>(
        &self,
        targets: &[Target],
        (text, what): (&str, &'static str),
        mut read: impl FnMut(&FileReader) -> Result<Vec<R>, AdminError>,
    ) -> Result<(Of<R>, Box<FileReader>), AdminError> {
        let mut rows = vec![];
        let mut files = vec![];
        for target in targets {
            let file = match target.access() {
                Ok(Access::File(file)) => file,
                Ok(access @ Access::Endpoint(_)) => {
                    if targets.len() == 1 {
                        access.reader().expect(self.kind)?;
                    }
                    continue;
                }
                Err(_) if targets.len() > 1 => continue,
                Err(e) => return Err(e),
            };
            if targets.len() == 1 {
                file.expect(self.kind)?;
            }
            if file.origin().kind != self.kind {
                continue;
            }
            let store = file.origin().name().to_owned();
            let of = |row| Of {
                store: store.clone(),
                row,
            };
            rows.extend(read(&file)?.into_iter().map(of));
            files.push(file);
        }
        if files.is_empty() {
            let wanted = owner(self.kind);
            return Err(AdminError::NoneOfKind { wanted });
        }
        let found = pick(&rows, text, what)?;
        let found = Of {
            store: found.store.clone(),
            row: found.row.clone(),
        };
        let file = files.into_iter().find(|f| f.origin().name() == found.store);
        let file = file.ok_or_else(|| AdminError::NoSuch {
            what,
            text: text.to_owned(),
        })?;
        note_source(file.origin());
        Ok((found, file))
    }

    /// As [`Listing::run`], of stores that are read from their files.
    pub(super) fn run_files<R: Serialize>(
        &self,
        targets: &[Target],
        p: &mut Printer,
        mut read: impl FnMut(&FileReader) -> Result<Vec<R>, AdminError>,
        show: impl FnMut(&[R], &mut Printer) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        let read = |access: &Access| match access {
            Access::File(file) => read(file),
            Access::Endpoint(bus) => bus.expect(self.kind).map(|()| vec![]),
        };
        self.run_access(targets, p, read, show)
    }

    /// Reads the rows of every store of the kind, and shows them in text or JSON.
    pub(super) fn run<R: Serialize>(
        &self,
        targets: &[Target],
        p: &mut Printer,
        mut read: impl FnMut(&dyn StoreReader) -> Result<Vec<R>, AdminError>,
        show: impl FnMut(&[R], &mut Printer) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        self.run_access(targets, p, |access| read(access.reader()), show)
    }

    fn run_access<R: Serialize>(
        &self,
        targets: &[Target],
        p: &mut Printer,
        mut read: impl FnMut(&Access) -> Result<Vec<R>, AdminError>,
        mut show: impl FnMut(&[R], &mut Printer) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        let mut stores = vec![];
        p.code = super::each_access(targets, |access| {
            let reader = access.reader();
            // Among several stores those of the other kind are passed over.
            if targets.len() == 1 {
                reader.expect(self.kind)?;
            }
            if reader.origin().kind == self.kind {
                stores.push(Part {
                    store: reader.origin().store.clone(),
                    name: self.name,
                    rows: read(access)?,
                });
            }
            Ok(())
        })?;
        if stores.is_empty() && p.code == 0 {
            let wanted = owner(self.kind);
            return Err(AdminError::NoneOfKind { wanted });
        }
        if p.json {
            return Ok(p.json(&Answer { stores })?);
        }
        let many = stores.len() > 1;
        for part in &stores {
            status::heading(part.store.as_deref().unwrap_or("(memory)"), many, p)?;
            show(&part.rows, p)?;
        }
        Ok(())
    }
}
