//! A history as one page, which needs nothing else: rows are clients and scopes, bars are beliefs.
//!
//! Everything is placed in per cent of the width, so that the page is zoomed by making the drawing wider.

use super::{Belief, End, Event, History, Step, Violation, What};
use crate::Moment;
use coordinator_core::Mode;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;

const STYLE: &str = include_str!("timeline.css");
const SCRIPT: &str = include_str!("timeline.js");

/// Of a row; as in the style.
const HEIGHT: usize = 22;

/// The page. Whatever the history says is text in it, never markup.
pub fn html(history: &History, title: &str, violations: &[Violation]) -> String {
    let page = Page::of(history, violations);
    let mut wrong = String::new();
    for violation in violations {
        let _ = writeln!(wrong, "<li>{}</li>", Text(violation));
    }
    let title = Text(title);
    let (names, drawing, events, span) = (page.names(), page.drawing(), page.events.len(), page.span);
    let height = HEIGHT * (page.rows.len() + 1);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p>{events} events, {} violations. The axis counts from the first event.</p>\n\
         <ol class=\"violations\">\n{wrong}</ol>\n\
         <p class=\"key\"><span class=\"exclusive\">exclusive</span><span class=\"shared\">shared</span>\
         <span class=\"lost\">loss told</span><span class=\"killed\">killed</span><span class=\"failed\">failed</span>\
         <span class=\"refused\">refused</span>thin: waiting; circle: token; red: wrong</p>\n\
         <label>zoom <input type=\"range\" id=\"zoom\" min=\"0\" max=\"12\" step=\"0.1\" value=\"0\"></label>\n\
         <div class=\"chart\">\n<div class=\"names\">\n<div></div>\n{names}</div>\n\
         <div class=\"lines\"><svg width=\"100%\" height=\"{height}\" data-span=\"{span}\">\n\
         <g id=\"axis\"></g>\n{drawing}</svg></div>\n</div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        violations.len(),
    )
}

/// Process, client and scope; a process that only has marks has a row with neither.
type Row<'h> = (&'h str, &'h str, &'h str);

struct Page<'h> {
    events: Vec<&'h Event>,
    beliefs: Vec<Belief>,
    wrong: Vec<Whose<'h>>,
    rows: BTreeMap<Row<'h>, usize>,
    begin: Moment,
    end: Moment,
    /// In nanoseconds, and not zero.
    span: u128,
}

/// Which lease it is.
type Whose<'h> = (&'h str, &'h str, &'h str, Moment);

impl<'h> Page<'h> {
    fn of(history: &'h History, violations: &'h [Violation]) -> Self {
        let events = history.events();
        let mut rows: BTreeMap<_, usize> = events.iter().map(|event| (row(event), 0)).collect();
        for (number, row) in rows.values_mut().enumerate() {
            *row = number;
        }
        let begin = events.first().map_or_else(Moment::now, |event| event.at);
        let end = events.last().map_or(begin, |event| event.at);
        let wrong = violations.iter().flat_map(culprits).map(whose).collect();
        Self { beliefs: history.beliefs(), wrong, rows, begin, end, span: end.since(begin).as_nanos().max(1), events }
    }

    fn names(&self) -> String {
        let mut names = String::new();
        for (process, client, scope) in self.rows.keys() {
            let _ = writeln!(names, "<div>{} {} <b>{}</b></div>", Text(process), Text(client), Text(scope));
        }
        names
    }

    fn drawing(&self) -> String {
        let mut drawing = String::new();
        for number in 0..self.rows.len() {
            let y = HEIGHT * (number + 1);
            let _ = writeln!(drawing, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>");
        }
        self.waits(&mut drawing);
        for belief in &self.beliefs {
            self.belief(&mut drawing, belief);
        }
        for event in &self.events {
            self.mark(&mut drawing, event);
        }
        drawing
    }

    /// From each question to what came of it.
    fn waits(&self, drawing: &mut String) {
        let mut asked: BTreeMap<Row<'_>, Moment> = BTreeMap::new();
        let wait = |drawing: &mut String, row: Row<'_>, class: &str, from: Moment, to: Moment| {
            let title = format!("waited {:?}", to.since(from));
            self.bar(drawing, self.rows[&row], (9, 4), class, (from, to), &title);
        };
        for event in &self.events {
            match &event.what {
                What::Client { step: Step::Invoke(_), .. } => drop(asked.insert(row(event), event.at)),
                What::Client { .. } => {
                    if let Some(from) = asked.remove(&row(event)) {
                        wait(drawing, row(event), "wait", from, event.at);
                    }
                }
                What::Killed => asked.retain(|row, from| {
                    if row.0 == event.process {
                        wait(drawing, *row, "wait", *from, event.at);
                    }
                    row.0 != event.process
                }),
                What::Note(_) => {}
            }
        }
        for (row, from) in asked {
            wait(drawing, row, "open", from, self.end);
        }
    }

    fn belief(&self, drawing: &mut String, belief: &Belief) {
        let mode = if belief.mode == Mode::Exclusive { "exclusive" } else { "shared" };
        let wrong = if self.wrong.contains(&whose(belief)) { " wrong" } else { "" };
        let until = belief.end.map_or(self.end, |(at, _)| at);
        let how = match belief.end {
            None => "never ended",
            Some((_, End::Released)) => "released",
            Some((_, End::Lost)) => "lost",
            Some((_, End::Killed)) => "killed",
        };
        let title = format!("{belief}: {:?} to {:?}, {how}", self.after(belief.granted), self.after(until));
        let row = self.rows[&(belief.process.as_str(), belief.client.as_str(), belief.scope.as_str())];
        self.bar(drawing, row, (4, 14), &format!("{mode}{wrong}"), (belief.granted, until), &title);
        for token in &belief.tokens {
            let (x, y) = (self.x(token.answered), HEIGHT * (row + 1) + HEIGHT / 2);
            let title = format!("token {} at {:?}", token.token, self.after(token.answered));
            let _ =
                writeln!(drawing, "<circle class=\"token\" cx=\"{x}\" cy=\"{y}\" r=\"3\">{}</circle>", Title(&title));
        }
    }

    fn mark(&self, drawing: &mut String, event: &Event) {
        let own = self.rows[&row(event)];
        let (class, text) = match &event.what {
            What::Killed => ("killed", "killed".to_owned()),
            What::Note(text) => ("note", text.clone()),
            What::Client { step: Step::Lost(reason), .. } => ("lost", format!("loss told: {reason}")),
            What::Client { step: Step::Failed(error), .. } => ("failed", format!("failed: {error}")),
            What::Client { step: Step::Refused, .. } => ("refused", "refused".to_owned()),
            What::Client { .. } => return,
        };
        let rows = if matches!(event.what, What::Client { .. }) { own..=own } else { self.process(&event.process) };
        let (x, from, to) = (self.x(event.at), HEIGHT * (rows.start() + 1), HEIGHT * (rows.end() + 2));
        let title = format!("{text}, at {:?}", self.after(event.at));
        let title = Title(&title);
        let _ =
            writeln!(drawing, "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"{from}\" y2=\"{to}\">{title}</line>");
    }

    /// The rows of a process, which follow one another.
    fn process(&self, process: &str) -> RangeInclusive<usize> {
        let mut rows = self.rows.iter().filter(|((of, ..), _)| *of == process).map(|(_, row)| *row);
        let first = rows.next().unwrap_or_default();
        first..=rows.next_back().unwrap_or(first)
    }

    fn bar(
        &self,
        drawing: &mut String,
        row: usize,
        (top, height): (usize, usize),
        class: &str,
        (from, to): (Moment, Moment),
        title: &str,
    ) {
        let (x, width, y) = (self.x(from), Percent(to.since(from).as_nanos(), self.span), HEIGHT * (row + 1) + top);
        let title = Title(title);
        let _ = writeln!(
            drawing,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">{title}</rect>"
        );
    }

    fn x(&self, at: Moment) -> Percent {
        Percent(at.since(self.begin).as_nanos(), self.span)
    }

    fn after(&self, at: Moment) -> std::time::Duration {
        at.since(self.begin)
    }
}

fn row(event: &Event) -> Row<'_> {
    match &event.what {
        What::Client { client, scope, .. } => (&event.process, client, scope),
        What::Killed | What::Note(_) => (&event.process, "", ""),
    }
}

fn culprits(violation: &Violation) -> Vec<&Belief> {
    match violation {
        Violation::Overlap { first, second, .. }
        | Violation::TokenWentBack { first, second, .. }
        | Violation::TokenRepeated { first, second, .. }
        | Violation::FormerHolderAhead { first, second, .. } => vec![first, second],
        Violation::BelievedAfterLoss { belief, .. } | Violation::NeverEnded { belief } => vec![belief],
        Violation::Unanswered { .. } | Violation::OutOfPlace { .. } => Vec::new(),
    }
}

fn whose(belief: &Belief) -> Whose<'_> {
    (&belief.process, &belief.client, &belief.scope, belief.granted)
}

/// A part of a whole.
struct Percent(u128, u128);

impl Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millionths = self.0.saturating_mul(100_000_000) / self.1;
        write!(f, "{}.{:06}%", millionths / 1_000_000, millionths % 1_000_000)
    }
}

/// What a pointer over the element shows.
struct Title<'t>(&'t str);

impl Display for Title<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<title>{}</title>", Text(self.0))
    }
}

/// Text that is no markup, in an element or an attribute.
struct Text<T>(T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.to_string().chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
