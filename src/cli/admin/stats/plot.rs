//! What is drawn: for each store its events and what waited, and how long messages took.

use std::collections::{BTreeMap, BTreeSet};

use super::super::print::{date, fine_span, time};
use super::latency::Latency;
use super::svg::{Anchor, Picture};
use super::{Answer, MINUTE_MS, StoreStats};
use crate::wire::admin::DepthPoint;

const WIDTH: u32 = 900;
/// Height of one chart with its head.
const CHART: u32 = 215;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 180.0;
const PLOT: f64 = 150.0;

/// Most bars of a chart.
const BARS: u64 = 180;

/// Kinds with a colour of their own; the others share the last.
const COLORS: [&str; 7] = [
    "#3b6ea5", "#d1762c", "#4c9a54", "#b0413e", "#7d5ba6", "#8a6d3b", "#999999",
];

/// The picture.
pub(super) fn draw(answer: &Answer) -> String {
    let charts = answer.stores.len() * 2 + 1;
    let height = u32::try_from(charts).unwrap_or(1).saturating_mul(CHART) + 20;
    let mut picture = Picture::new(WIDTH, height);
    let mut top = 10.0;
    for store in &answer.stores {
        events(store, top, &mut picture);
        top += f64::from(CHART);
        depth(store, top, &mut picture);
        top += f64::from(CHART);
    }
    latencies(&answer.latencies, top, &mut picture);
    picture.finish()
}

/// Times from left to right.
#[derive(Clone, Copy)]
struct Axis {
    from: u64,
    /// Milliseconds of one bar.
    step: u64,
    bars: u64,
}

impl Axis {
    fn of(store: &StoreStats) -> Option<Axis> {
        let from = store.minutes.first()?.at;
        let to = store.minutes.last()?.at;
        let minutes = (to - from) / MINUTE_MS + 1;
        let step = MINUTE_MS * minutes.div_ceil(BARS);
        Some(Axis {
            from,
            step,
            bars: (to - from) / step + 1,
        })
    }

    fn width(self) -> f64 {
        (f64::from(WIDTH) - LEFT - RIGHT) / number(self.bars)
    }

    fn x(self, at: u64) -> f64 {
        LEFT + number(at.saturating_sub(self.from)) / number(self.step) * self.width()
    }

    fn bar(self, at: u64) -> u64 {
        at.saturating_sub(self.from) / self.step
    }
}

/// For drawing, where a pixel is the finest there is.
#[expect(clippy::cast_precision_loss, reason = "a pixel is the finest there is")]
fn number(n: u64) -> f64 {
    n as f64
}

fn frame(top: f64, head: &str, most: u64, axis: Option<Axis>, picture: &mut Picture) {
    picture.text((LEFT, top + 14.0), Anchor::Start, "head", head);
    let bottom = top + 24.0 + PLOT;
    let right = f64::from(WIDTH) - RIGHT;
    picture.line(
        &[(LEFT, top + 24.0), (LEFT, bottom), (right, bottom)],
        "#999999",
    );
    picture.text(
        (LEFT - 6.0, top + 32.0),
        Anchor::End,
        "dim",
        &most.to_string(),
    );
    picture.text((LEFT - 6.0, bottom), Anchor::End, "dim", "0");
    if let Some(axis) = axis {
        let to = axis.from + axis.step * axis.bars;
        for (at, x, anchor) in [(axis.from, LEFT, Anchor::Start), (to, right, Anchor::End)] {
            let clock: String = time(at).chars().take(5).collect();
            let label = format!("{} {clock}", date(at));
            picture.text((x, bottom + 14.0), anchor, "dim", &label);
        }
    }
}

fn legend(top: f64, at: usize, color: &str, text: &str, picture: &mut Picture) {
    let y = top + 28.0 + 16.0 * number(at as u64);
    let x = f64::from(WIDTH) - RIGHT + 14.0;
    picture.rect((x, y), (10.0, 10.0), color, text);
    picture.text((x + 16.0, y + 9.0), Anchor::Start, "", text);
}

fn color(at: usize) -> &'static str {
    COLORS
        .get(at)
        .or(COLORS.last())
        .copied()
        .unwrap_or("#999999")
}

fn events(store: &StoreStats, top: f64, picture: &mut Picture) {
    let axis = Axis::of(store);
    let mut order: Vec<(&str, u64)> = store
        .kinds
        .iter()
        .map(|kind| (kind.kind.as_str(), kind.records))
        .collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let own = order.iter().take(COLORS.len() - 1).enumerate();
    let own: BTreeMap<&str, usize> = own.map(|(at, (kind, _))| (*kind, at)).collect();
    // Bar, then colour.
    let mut bars: BTreeMap<u64, BTreeMap<usize, u64>> = BTreeMap::new();
    let mut used: BTreeSet<usize> = BTreeSet::new();
    for minute in &store.minutes {
        let Some(axis) = axis else { continue };
        for (kind, n) in &minute.kinds {
            let at = own.get(kind.as_str()).copied().unwrap_or(COLORS.len() - 1);
            used.insert(at);
            *bars
                .entry(axis.bar(minute.at))
                .or_default()
                .entry(at)
                .or_default() += n;
        }
    }
    let most = bars
        .values()
        .map(|bar| bar.values().sum::<u64>())
        .max()
        .unwrap_or(0);
    let per = axis.map_or(1, |axis| axis.step / MINUTE_MS);
    let head = match per {
        1 => format!("{}: records a minute", store.place.name),
        n => format!("{}: records in {n} minutes", store.place.name),
    };
    frame(top, &head, most, axis, picture);
    for (bar, parts) in &bars {
        let Some(axis) = axis else { continue };
        let mut y = top + 24.0 + PLOT;
        let at = axis.from + bar * axis.step;
        for (part, n) in parts {
            let height = PLOT * number(*n) / number(most.max(1));
            y -= height;
            let name = order.get(*part).filter(|_| *part < COLORS.len() - 1);
            let name = name.map_or("others", |(kind, _)| *kind);
            let title = format!("{} {}: {name} {n}", date(at), time(at));
            picture.rect(
                (axis.x(at), y),
                (axis.width() * 0.9, height),
                color(*part),
                &title,
            );
        }
    }
    for (line, at) in used.iter().enumerate() {
        let name = order.get(*at).filter(|_| *at < COLORS.len() - 1);
        legend(
            top,
            line,
            color(*at),
            name.map_or("others", |(kind, _)| *kind),
            picture,
        );
    }
}

fn depth(store: &StoreStats, top: f64, picture: &mut Picture) {
    let axis = Axis::of(store);
    let mut tables: BTreeMap<&str, Vec<&DepthPoint>> = BTreeMap::new();
    for point in &store.depth.points {
        tables.entry(&point.table).or_default().push(point);
    }
    let most = store
        .depth
        .points
        .iter()
        .map(|point| point.most)
        .max()
        .unwrap_or(0);
    let head = format!("{}: how much waited", store.place.name);
    frame(top, &head, most, axis, picture);
    for (at, (table, points)) in tables.iter().enumerate() {
        legend(top, at, color(at), table, picture);
        let Some(axis) = axis else { continue };
        let y = |rows: u64| top + 24.0 + PLOT * (1.0 - number(rows) / number(most.max(1)));
        let mut line = vec![];
        for point in points {
            // Its most all along, then what was left at its end.
            let x = axis.x(point.at);
            if let Some((_, before)) = line.last().copied() {
                line.push((x, before));
            }
            let end = x + axis.width() * number(store.depth.span_ms) / number(axis.step);
            line.extend([
                (x, y(point.most)),
                (end, y(point.most)),
                (end, y(point.rows)),
            ]);
        }
        picture.line(&line, color(at));
    }
}

fn latencies(all: &[Latency], top: f64, picture: &mut Picture) {
    let most = all
        .iter()
        .filter_map(|latency| latency.max_ms)
        .max()
        .unwrap_or(0);
    picture.text(
        (LEFT, top + 14.0),
        Anchor::Start,
        "head",
        "how long messages took",
    );
    let room = f64::from(WIDTH) - 2.0 * RIGHT;
    let mut y = top + 28.0;
    for latency in all {
        let name = latency.stage.replace('_', " ");
        picture.text((RIGHT - 8.0, y + 16.0), Anchor::End, "", &name);
        let marks = [
            (latency.max_ms, "#e4eaf1", "most"),
            (latency.p99_ms, "#b9cbe0", "p99"),
            (latency.p90_ms, "#7ea1c8", "p90"),
            (latency.p50_ms, "#3b6ea5", "p50"),
        ];
        let mut words = vec![];
        for (ms, color, word) in marks {
            let Some(ms) = ms else { continue };
            words.insert(0, format!("{word} {}", fine_span(ms)));
            let width = room * number(ms) / number(most.max(1));
            let title = format!("{name}: {word} {}", fine_span(ms));
            picture.rect((RIGHT, y + 4.0), (width, 16.0), color, &title);
        }
        let text = match latency.messages {
            0 => "no messages".to_owned(),
            n => format!("{n}: {}", words.join(", ")),
        };
        picture.text((RIGHT, y + 31.0), Anchor::Start, "dim", &text);
        y += 36.0;
    }
}
