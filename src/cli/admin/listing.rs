//! The frame of the commands that list something of each store of a kind.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::error::AdminError;
use super::locate::Target;
use super::print::Printer;
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

impl Listing {
    /// Reads the rows of every store of the kind, and shows them in text or JSON.
    pub(super) fn run<R: Serialize>(
        &self,
        targets: &[Target],
        p: &mut Printer,
        mut read: impl FnMut(&dyn StoreReader) -> Result<Vec<R>, AdminError>,
        mut show: impl FnMut(&[R], &mut Printer) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        let mut stores = vec![];
        p.code = super::each(targets, |reader| {
            // Among several stores those of the other kind are passed over.
            if targets.len() == 1 {
                reader.expect(self.kind)?;
            }
            if reader.origin().kind == self.kind {
                stores.push(Part {
                    store: reader.origin().store.clone(),
                    name: self.name,
                    rows: read(reader)?,
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
