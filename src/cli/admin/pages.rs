//! Reading a log page by page, from a bus that may compact it meanwhile.
//!
//! A page tells the compaction point of its moment. Where that has come to lie at or behind the place
//! that was reached, records went unread; whoever reads says so instead of giving less in silence.

use super::print::note_missed_records;
use super::status::count;
use crate::wire::admin::Records;

/// How far a log was read.
#[derive(Debug)]
pub(super) struct Pages {
    next: u64,
    begun: bool,
    missed: u64,
}

impl Pages {
    /// Begins at a position; what was compacted before the first page is not missed.
    pub(super) const fn from(next: u64) -> Pages {
        Pages {
            next,
            begun: false,
            missed: 0,
        }
    }

    /// Begins behind a compaction point whose rows are known.
    pub(super) const fn behind(base: u64) -> Pages {
        Pages {
            next: base.saturating_add(1),
            begun: true,
            missed: 0,
        }
    }

    /// Position to ask for.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Records that were compacted away before they were read.
    pub(super) const fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes note of a page; whether there may be more.
    pub(super) fn take(&mut self, page: &Records) -> bool {
        if self.begun {
            let gone = page.base.saturating_add(1).saturating_sub(self.next);
            self.missed = self.missed.saturating_add(gone);
        }
        self.begun = true;
        self.next = self.next.max(page.base.saturating_add(1));
        let Some(last) = page.records.last() else {
            return false;
        };
        self.next = last.seq.saturating_add(1);
        self.next <= page.head
    }
}

/// Says that something is missing, if it is.
pub(super) fn note_missed(store: &str, missed: u64) {
    if missed > 0 {
        let text = format!(
            "{store} was compacted while it was read: {} not seen; run it again for the whole of what \
             is left",
            if missed == 1 {
                "1 record was".to_owned()
            } else {
                format!("{} were", count(missed, "record"))
            }
        );
        note_missed_records(&text, missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::admin::RecordRow;

    fn page(base: u64, seqs: std::ops::RangeInclusive<u64>, head: u64) -> Records {
        let records = seqs.map(|seq| RecordRow {
            seq,
            at: 0,
            kind: String::new(),
            event: serde_json::Value::Null,
        });
        Records {
            head,
            base,
            records: records.collect(),
        }
    }

    #[test]
    fn what_a_compaction_took_between_two_pages_is_counted() {
        let mut pages = Pages::from(0);
        assert!(pages.take(&page(10, 11..=20, 40)));
        assert_eq!((pages.next(), pages.missed()), (21, 0));
        // Compacted behind what was read: nothing is missed.
        assert!(pages.take(&page(20, 21..=25, 40)));
        assert_eq!(pages.missed(), 0);
        assert!(pages.take(&page(30, 31..=35, 40)));
        assert_eq!(pages.missed(), 5);
        assert!(!pages.take(&page(30, 36..=40, 40)));
        assert_eq!((pages.next(), pages.missed()), (41, 5));
    }

    #[test]
    fn a_compaction_between_the_rows_and_the_first_page_counts_too() {
        let mut pages = Pages::behind(10);
        assert!(!pages.take(&page(15, 16..=20, 20)));
        assert_eq!(pages.missed(), 5);
        let mut pages = Pages::behind(10);
        let empty = Records {
            records: vec![],
            ..page(20, 20..=20, 20)
        };
        assert!(!pages.take(&empty));
        assert_eq!((pages.next(), pages.missed()), (21, 10));
    }
}
