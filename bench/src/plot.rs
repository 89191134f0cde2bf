//! Small plots, as SVG that a page can show in light and in dark.

use std::fmt::Write as _;

/// A line of a plot: its name, and its points.
pub type Line = (String, Vec<(f64, f64)>);

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 7] = ["#3b6fb6", "#c4572b", "#3d8a57", "#8a5fb0", "#b08c24", "#2a8f9c", "#a84a7a"];

/// Draws lines over a logarithmic axis; the other begins at nought, so that what is constant looks so.
#[must_use]
pub fn svg(title: &str, across: &str, up: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min).log10();
    let most = points().map(|point| point.0).fold(0.0, f64::max).log10();
    let top = nice(points().map(|point| point.1).fold(0.0, f64::max));
    let x = |value: f64| LEFT + (value.log10() - least) / (most - least).max(0.01) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <style>text{{fill:#444}}.axis{{stroke:#999}}.grid{{stroke:#9994}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ccc}}}}</style>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{title}</text>\n"
    );
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(svg, "{line}").expect("it is a string");
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let at = y(value);
        put(format_args!(
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>"
        ));
        put(format_args!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            crate::report::short(value)
        ));
    }
    let mut marks: Vec<f64> = points().map(|point| point.0).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    for mark in marks {
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(mark),
            bottom + 15.0,
            thousands(mark)
        ));
    }
    put(format_args!("<line class=\"axis\" x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>"));
    put(format_args!(
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{across}</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 8.0
    ));
    put(format_args!(
        "<text x=\"14\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.1})\">{up}</text>",
        f64::midpoint(TOP, bottom),
        f64::midpoint(TOP, bottom)
    ));
    for (index, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let path: Vec<_> =
            points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        put(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            path.join(" ")
        ));
        for point in points {
            put(format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{colour}\"/>",
                x(point.0),
                y(point.1)
            ));
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
        let at = TOP + 8.0 + 16.0 * index as f64;
        put(format_args!(
            "<rect x=\"{}\" y=\"{:.1}\" width=\"10\" height=\"3\" fill=\"{colour}\"/>",
            right + 10.0,
            at - 5.0
        ));
        put(format_args!("<text x=\"{}\" y=\"{at:.1}\">{}</text>", right + 24.0, name.replace('<', "&lt;")));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The next number that is 1, 2, 2.5, 5 or 10 times a power of ten.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(value)
}

fn thousands(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0}M", value / 1e6),
        value if value >= 1e3 => format!("{:.0}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}
