//! Numbers as tables.

use std::collections::BTreeMap;

use super::super::error::AdminError;
use super::super::print::{Printer, Shown, Style, date, fine_span, time};
use super::super::status;
use super::{Answer, StoreStats};

pub(super) fn answer(answer: &Answer, minutes: usize, p: &mut Printer) -> Result<(), AdminError> {
    for store in &answer.stores {
        show(store, minutes, p)?;
        p.line(Style::Plain, "")?;
    }
    let head = format!(
        "how long {} took",
        status::count(answer.messages, "message")
    );
    p.line(Style::Bold, &head)?;
    let ms = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), fine_span);
    let rows: Vec<Vec<String>> = answer
        .latencies
        .iter()
        .map(|latency| {
            vec![
                latency.stage.replace('_', " "),
                latency.messages.to_string(),
                ms(latency.min_ms),
                ms(latency.p50_ms),
                ms(latency.p90_ms),
                ms(latency.p99_ms),
                ms(latency.max_ms),
            ]
        })
        .collect();
    p.table(
        &[
            "STAGE",
            " MESSAGES",
            " LEAST",
            " P50",
            " P90",
            " P99",
            " MOST",
        ],
        &rows,
    )?;
    for latency in answer
        .latencies
        .iter()
        .filter(|latency| latency.contradicting > 0)
    {
        let text = format!(
            "{}: the clocks of {} contradict each other; they are not in the times",
            latency.stage.replace('_', " "),
            status::count(latency.contradicting, "message"),
        );
        p.prose("clocks", &text)?;
    }
    Ok(())
}

fn show(store: &StoreStats, minutes: usize, p: &mut Printer) -> Result<(), AdminError> {
    p.whole_line(
        Style::Bold,
        &format!("{}: {}", store.place.name, store.place.store()),
    )?;
    let Some((first, last)) = store.first_at.zip(store.last_at) else {
        return Ok(p.line(Style::Plain, "  no records")?);
    };
    let mut text = format!(
        "{} from {} {} to {} {}",
        status::count(store.records, "record"),
        date(first),
        time(first),
        date(last),
        time(last),
    );
    if store.place.base > 0 {
        text.push_str(&format!(
            "; those up to {} were compacted",
            store.place.base
        ));
    }
    p.prose("counted", &text)?;
    let rows: Vec<Vec<String>> = store
        .kinds
        .iter()
        .map(|kind| {
            vec![
                kind.records.to_string(),
                format!("{:.2}", kind.per_minute),
                kind.most_per_minute.to_string(),
                Shown(&kind.kind).to_string(),
            ]
        })
        .collect();
    p.table(&[" RECORDS", " A MINUTE", " MOST", "KIND"], &rows)?;
    depth(store, p)?;
    list(store, minutes, p)
}

/// How much waits at the end, and when most did.
fn depth(store: &StoreStats, p: &mut Printer) -> Result<(), AdminError> {
    let mut tables: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for point in &store.depth.points {
        let known = tables.entry(&point.table).or_default();
        known.0 = point.rows;
        if point.most > known.1 {
            (known.1, known.2) = (point.most, point.at);
        }
    }
    let rows: Vec<Vec<String>> = tables
        .into_iter()
        .map(|(table, (last, most, at))| {
            let when = if most == 0 {
                "-".to_owned()
            } else {
                format!("{} {}", date(at), minute(at))
            };
            vec![table.to_owned(), last.to_string(), most.to_string(), when]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    p.table(&["WAITS IN", " LAST", " MOST", "WHEN (UTC)"], &rows)?;
    Ok(())
}

fn minute(at: u64) -> String {
    time(at).chars().take(5).collect()
}

fn list(store: &StoreStats, minutes: usize, p: &mut Printer) -> Result<(), AdminError> {
    let from = store.minutes.len().saturating_sub(minutes);
    let newest = store.minutes.get(from..).unwrap_or_default();
    if newest.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = newest
        .iter()
        .map(|of| {
            let mut kinds: Vec<(&String, &u64)> = of.kinds.iter().collect();
            kinds.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            let words: Vec<String> = kinds
                .iter()
                .map(|(kind, n)| format!("{} {n}", Shown(kind)))
                .collect();
            vec![
                format!("{} {}", date(of.at), minute(of.at)),
                of.records.to_string(),
                words.join(", "),
            ]
        })
        .collect();
    p.table(&["MINUTE (UTC)", " RECORDS", "KINDS"], &rows)?;
    Ok(())
}
