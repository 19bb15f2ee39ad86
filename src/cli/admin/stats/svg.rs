//! A picture as text. SVG is XML: what is drawn is a list of elements, and every text in it is
//! escaped here and nowhere else.

use std::fmt::Write as _;

use crate::types::text::visible;

/// A picture that is being drawn, in pixels.
pub(super) struct Picture {
    width: u32,
    height: u32,
    body: String,
}

/// Where text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    End,
}

impl Picture {
    pub(super) fn new(width: u32, height: u32) -> Picture {
        Picture {
            width,
            height,
            body: String::new(),
        }
    }

    pub(super) fn rect(&mut self, at: (f64, f64), size: (f64, f64), fill: &str, title: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\">\
             <title>{}</title></rect>",
            at.0,
            at.1,
            size.0.max(0.5),
            size.1.max(0.0),
            escaped(title)
        );
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: &str) {
        let mut text = String::new();
        for (x, y) in points {
            let _ = write!(text, "{x:.1},{y:.1} ");
        }
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.5\"/>",
            text.trim_end()
        );
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            at.0,
            at.1,
            escaped(text)
        );
    }

    /// The document.
    pub(super) fn finish(self) -> String {
        let Picture {
            width,
            height,
            body,
        } = self;
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
             <style>text{{font:11px sans-serif;fill:#333}}.head{{font:bold 13px sans-serif}}\
             .dim{{fill:#777}}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
        )
    }
}

/// Text of others, harmless in XML and on a screen.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_text() {
        let mut picture = Picture::new(10, 10);
        picture.text(
            (1.0, 2.0),
            Anchor::End,
            "dim",
            "</text><script>&\"'\u{202e}",
        );
        let svg = picture.finish();
        assert!(
            svg.contains("&lt;/text&gt;&lt;script&gt;&amp;&quot;&#39;\\u{202e}"),
            "{svg}"
        );
        assert!(!svg.contains("<script>"));
    }
}
