//! `at`: the state of any projection as it was then; `diff`: what changed between two points.
//!
//! Both replay the log in memory, from the compaction point on. What was before that point nobody
//! knows any more, and they say so instead of guessing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::super::fold::{Long, fold};
use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Shown, Style};
use super::reader::{Origin, StoreReader};
use super::when::Point;
use super::{rows, status};
use crate::domain::tables::TableId;
use crate::event::kind::StoreKind;
use crate::store::ReadError;
use crate::types::limit::MAX_ADMIN_ROWS;
use crate::types::seq::Seq;
use crate::wire::admin::{TableRow, TableRows};

/// Columns before the words of a row.
const INDENT: usize = 6;

/// Which state.
#[derive(Debug, clap::Args)]
pub(super) struct AtArgs {
    /// After the record at this position; or after what was written at this time
    /// (2026-11-30T14:44:35Z) or that long ago (10m)
    #[arg(value_name = "SEQ|TIME")]
    point: Point,

    /// Only this table, with its rows
    table: Option<String>,
}

/// Which points.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArgs {
    /// The earlier point: a position, a time or an age
    #[arg(value_name = "SEQ|TIME")]
    from: Point,

    /// The later point
    #[arg(value_name = "SEQ|TIME")]
    to: Point,

    /// Only this table
    table: Option<String>,
}

/// What `at --json` answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct AtAnswer {
    /// Each store that has what was asked for.
    stores: Vec<StateThen>,
}

/// A store as it was.
#[derive(Serialize, JsonSchema)]
struct StateThen {
    #[serde(flatten)]
    origin: Origin,
    /// Position of the newest record then; 0 before the first one.
    seq: u64,
    /// The tables and their rows.
    tables: Vec<TableRows>,
}

/// What `diff --json` answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct DiffAnswer {
    /// Each store that has what was asked for.
    stores: Vec<Difference>,
}

/// What changed in a store.
#[derive(Serialize, JsonSchema)]
struct Difference {
    #[serde(flatten)]
    origin: Origin,
    /// The first point.
    from: u64,
    /// The second point.
    to: u64,
    /// In order of table and key.
    changes: Vec<Change>,
}

/// How a row changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum How {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It says something else.
    Changed,
}

/// A row that changed.
#[derive(Serialize, JsonSchema)]
struct Change {
    /// Name of the table.
    table: String,
    /// The key, in parts that people read.
    key: String,
    /// The key's bytes, hex.
    raw: String,
    /// How it changed.
    change: How,
    /// The row at the first point; null where there was none.
    before: Option<Value>,
    /// The row at the second point; null where there was none.
    after: Option<Value>,
}

/// The tables that are meant; none in a store that has no such table.
fn tables(kind: StoreKind, name: Option<&str>) -> Vec<TableId> {
    let own = TableId::ALL
        .iter()
        .copied()
        .filter(|table| table.store() == kind);
    own.filter(|table| name.is_none_or(|name| table.name() == name))
        .collect()
}

fn check(points: &[Point], table: Option<&str>, targets: &[Target]) -> Result<(), AdminError> {
    let positions = points.iter().any(|point| matches!(point, Point::Seq(_)));
    if positions && targets.len() > 1 {
        let stores = targets.len();
        return Err(AdminError::Positions { stores });
    }
    match table {
        Some(name) if !TableId::ALL.iter().any(|table| table.name() == name) => {
            Err(AdminError::Table {
                name: name.to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// The position that a point means in a store; refused where what was then is not known.
fn position(reader: &dyn StoreReader, point: Point) -> Result<Seq, AdminError> {
    let store = reader.origin().name().to_owned();
    let ends = reader.records(u64::MAX, 1)?;
    let (base, head) = (ends.base, ends.head);
    let seq = match point {
        Point::Seq(seq) if seq > head => return Err(AdminError::NotYet { store, seq, head }),
        Point::Seq(seq) => seq,
        Point::Time(at) => newest_at(reader, at.0)?.unwrap_or(0),
    };
    if seq < base {
        let source = ReadError::Compacted {
            at: Seq(seq),
            base: Seq(base),
        };
        return Err(AdminError::Read { store, source });
    }
    Ok(Seq(seq))
}

/// The newest record that was written at a time or before. Where the log of a bus is compacted between
/// two pages, a record behind the cut is right all the same, and the rows as of one before it are
/// refused.
fn newest_at(reader: &dyn StoreReader, at: u64) -> Result<Option<u64>, AdminError> {
    let mut next = 0;
    let mut newest = None;
    loop {
        let page = reader.records(next, MAX_ADMIN_ROWS)?;
        for record in &page.records {
            next = record.seq.saturating_add(1);
            if record.at <= at {
                newest = Some(record.seq);
            }
        }
        if page.records.is_empty() || next > page.head {
            return Ok(newest);
        }
    }
}

pub(super) fn at(args: &AtArgs, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let name = args.table.as_deref();
    check(&[args.point], name, targets)?;
    let mut stores = vec![];
    let code = super::each(targets, |reader| {
        let tables = tables(reader.origin().kind, name);
        if tables.is_empty() {
            return passed_over(reader, targets, name);
        }
        let seq = position(reader, args.point)?;
        stores.push(StateThen {
            origin: reader.origin().clone(),
            seq: seq.0,
            tables: reader.rows(&tables, Some(seq))?,
        });
        Ok(())
    })?;
    p.code = code;
    if p.json {
        return Ok(p.json(&AtAnswer { stores })?);
    }
    for (index, store) in stores.iter().enumerate() {
        if index > 0 {
            p.line(Style::Plain, "")?;
        }
        show_state(store, name, p)?;
    }
    Ok(())
}

/// Among several stores those without the table are passed over.
fn passed_over(
    reader: &dyn StoreReader,
    targets: &[Target],
    name: Option<&str>,
) -> Result<(), AdminError> {
    let wanted = match TableId::ALL.iter().find(|table| Some(table.name()) == name) {
        Some(table) if targets.len() == 1 => table.store(),
        _ => return Ok(()),
    };
    reader.expect(wanted)
}

fn heading(origin: &Origin, what: &str, p: &mut Printer) -> Result<(), AdminError> {
    p.whole_line(Style::Bold, &format!("{}, {what}", origin.name()))?;
    Ok(())
}

/// What a position stands for.
fn record(seq: u64) -> String {
    match seq {
        0 => "the beginning".to_owned(),
        seq => format!("record {seq}"),
    }
}

fn show_state(store: &StateThen, name: Option<&str>, p: &mut Printer) -> Result<(), AdminError> {
    heading(&store.origin, &format!("as of {}", record(store.seq)), p)?;
    if name.is_none() {
        let rows: Vec<Vec<String>> = store
            .tables
            .iter()
            .map(|table| vec![table.rows.len().to_string(), table.table.clone()])
            .collect();
        return Ok(p.table(&[" ROWS", "TABLE"], &rows)?);
    }
    for table in &store.tables {
        if table.rows.is_empty() {
            p.line(Style::Plain, &format!("  {} is empty", table.table))?;
        }
        for row in &table.rows {
            p.line(Style::Plain, &format!("  {}", rows::key(&row.key)))?;
            indented(Style::Dim, &rows::words(&row.value), p)?;
        }
    }
    Ok(())
}

fn indented(style: Style, words: &str, p: &mut Printer) -> Result<(), AdminError> {
    let room = p.room(INDENT);
    for line in fold(words, room, Long::Broken) {
        p.line(style, &format!("{}{line}", " ".repeat(INDENT)))?;
    }
    Ok(())
}

pub(super) fn diff(args: &DiffArgs, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let name = args.table.as_deref();
    check(&[args.from, args.to], name, targets)?;
    let mut stores = vec![];
    let code = super::each(targets, |reader| {
        let tables = tables(reader.origin().kind, name);
        if tables.is_empty() {
            return passed_over(reader, targets, name);
        }
        let (from, to) = (position(reader, args.from)?, position(reader, args.to)?);
        let before = reader.rows(&tables, Some(from))?;
        let after = reader.rows(&tables, Some(to))?;
        stores.push(Difference {
            origin: reader.origin().clone(),
            from: from.0,
            to: to.0,
            changes: changes(before, after),
        });
        Ok(())
    })?;
    p.code = code;
    if p.json {
        return Ok(p.json(&DiffAnswer { stores })?);
    }
    for (index, store) in stores.iter().enumerate() {
        if index > 0 {
            p.line(Style::Plain, "")?;
        }
        show_difference(store, p)?;
    }
    Ok(())
}

/// Compares tables of the same names in the same order.
fn changes(before: Vec<TableRows>, after: Vec<TableRows>) -> Vec<Change> {
    let mut all = vec![];
    for (before, after) in before.into_iter().zip(after) {
        let by_key = |rows: Vec<TableRow>| -> BTreeMap<String, TableRow> {
            rows.into_iter().map(|row| (row.raw.clone(), row)).collect()
        };
        let (old, mut new) = (by_key(before.rows), by_key(after.rows));
        let mut found: BTreeMap<String, (Option<TableRow>, Option<TableRow>)> = BTreeMap::new();
        for (raw, row) in old {
            let now = new.remove(&raw);
            if now.as_ref() != Some(&row) {
                found.insert(raw, (Some(row), now));
            }
        }
        found.extend(new.into_iter().map(|(raw, row)| (raw, (None, Some(row)))));
        for (raw, (before, now)) in found {
            let change = match (&before, &now) {
                (None, _) => How::Added,
                (_, None) => How::Removed,
                _ => How::Changed,
            };
            let key = before.as_ref().or(now.as_ref()).map(|row| row.key.clone());
            all.push(Change {
                table: after.table.clone(),
                key: key.unwrap_or_default(),
                raw,
                change,
                before: before.map(|row| row.value),
                after: now.map(|row| row.value),
            });
        }
    }
    all
}

fn show_difference(store: &Difference, p: &mut Printer) -> Result<(), AdminError> {
    let what = format!("from {} to {}", record(store.from), record(store.to));
    heading(&store.origin, &what, p)?;
    if store.changes.is_empty() {
        return Ok(p.line(Style::Plain, "  nothing changed")?);
    }
    let mut table = "";
    for change in &store.changes {
        if change.table != table {
            table = &change.table;
            p.line(Style::Bold, &format!("  {table}"))?;
        }
        let (sign, style) = match change.change {
            How::Added => ('+', Style::Good),
            How::Removed => ('-', Style::Bad),
            How::Changed => ('~', Style::Plain),
        };
        p.line(style, &format!("    {sign} {}", rows::key(&change.key)))?;
        let words = match (&change.before, &change.after) {
            (Some(before), Some(now)) => members(before, now),
            (Some(row), None) | (None, Some(row)) => rows::words(row),
            (None, None) => continue,
        };
        indented(Style::Dim, &words, p)?;
    }
    let count = |how| {
        store
            .changes
            .iter()
            .filter(|change| change.change == how)
            .count() as u64
    };
    let text = format!(
        "  {} added, {} removed, {} changed",
        status::count(count(How::Added), "row"),
        count(How::Removed),
        count(How::Changed),
    );
    Ok(p.line(Style::Plain, &text)?)
}

/// The members that differ.
fn members(before: &Value, now: &Value) -> String {
    let (Some(old), Some(new)) = (before.as_object(), now.as_object()) else {
        return format!("{} -> {}", rows::words(before), rows::words(now));
    };
    let names: Vec<&String> = old
        .keys()
        .chain(new.keys().filter(|n| !old.contains_key(*n)))
        .collect();
    let words: Vec<String> = names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| {
            let word = |of: &serde_json::Map<String, Value>| {
                rows::word(name, of.get(name).unwrap_or(&Value::Null))
            };
            format!("{} {} -> {}", Shown(name), word(old), word(new))
        })
        .collect();
    words.join(", ")
}
