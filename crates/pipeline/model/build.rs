//! Writes the merges that lack something, each the real one with a few lines changed.

use std::{env, fmt::Write as _, fs, path::Path};

const MERGE: &str = "../src/merge.rs";

/// A merge that lacks something.
struct Variant {
    /// Its module.
    name: &'static str,
    /// What it lacks.
    lacks: &'static str,
    /// What is changed: the text, which must occur once, and what stands in its place.
    changes: &'static [(&'static str, &'static str)],
}

const VARIANTS: &[Variant] = &[
    Variant {
        name: "leaves_the_reader_asleep",
        lacks: "a stream that is woken wakes no reader",
        changes: &[(
            "self.line.push(self.ticket);\n            self.line.reader.wake();",
            "self.line.push(self.ticket);",
        )],
    },
    Variant {
        name: "wakes_the_reader_first",
        lacks: "the reader is woken before the stream stands in the line",
        changes: &[(
            "self.line.push(self.ticket);\n            self.line.reader.wake();",
            "self.line.reader.wake();\n            self.line.push(self.ticket);",
        )],
    },
    Variant {
        name: "registers_late",
        lacks: "the reader is registered after the line was looked at",
        changes: &[
            ("this.line.reader.register(cx.waker());", ""),
            (
                "let Some(ticket) = this.line.pop() else { return Poll::Pending };",
                "let Some(ticket) = this.line.pop() else {
                    this.line.reader.register(cx.waker());
                    return Poll::Pending;
                };",
            ),
        ],
    },
    Variant {
        name: "clears_the_mark_late",
        lacks: "the mark is taken away after the poll instead of before",
        changes: &[
            ("child.state.is_queued.swap(false, Ordering::AcqRel);\n", "\n"),
            (
                "Poll::Pending => {}",
                "Poll::Pending => {
                    child.state.is_queued.swap(false, Ordering::AcqRel);
                }",
            ),
            ("if !child.state.is_queued.swap(true, Ordering::AcqRel) {", "{"),
        ],
    },
    Variant {
        name: "clears_the_mark_blindly",
        lacks: "the mark is taken away by a store, which sees nothing",
        changes: &[(
            "child.state.is_queued.swap(false, Ordering::AcqRel);\n",
            "child.state.is_queued.store(false, Ordering::Release);\n",
        )],
    },
    Variant {
        name: "marks_without_release",
        lacks: "whoever finds the mark shows nothing of what he did before",
        changes: &[(
            "if !self.is_queued.swap(true, Ordering::AcqRel) {",
            "if !self.is_queued.swap(true, Ordering::Acquire) {",
        )],
    },
    Variant {
        name: "queues_no_new_stream",
        lacks: "a stream that is pushed does not stand in the line",
        changes: &[("self.line.push(ticket);\n        self.line.reader.wake();", "self.line.reader.wake();")],
    },
    Variant {
        name: "tells_no_reader_of_a_new_stream",
        lacks: "a stream that is pushed wakes no reader",
        changes: &[("self.line.push(ticket);\n        self.line.reader.wake();", "self.line.push(ticket);")],
    },
    Variant {
        name: "forgets_who_gave_an_item",
        lacks: "a stream that gave an item does not return to the line",
        changes: &[(
            "if !child.state.is_queued.swap(true, Ordering::AcqRel) {
                        this.line.push(ticket);
                    }",
            "",
        )],
    },
    Variant {
        name: "marks_who_gave_an_item_alone",
        lacks: "a stream that gave an item is marked and does not return to the line",
        changes: &[(
            "if !child.state.is_queued.swap(true, Ordering::AcqRel) {
                        this.line.push(ticket);
                    }",
            "child.state.is_queued.store(true, Ordering::Release);",
        )],
    },
    Variant {
        name: "knows_streams_by_their_place",
        lacks: "a wake-up of a stream that ended is one of the next in its place",
        changes: &[(
            "filter(|child| child.state.ticket == ticket)",
            "filter(|child| child.state.ticket.index == ticket.index)",
        )],
    },
];

fn main() {
    println!("cargo::rerun-if-changed={MERGE}");
    println!("cargo::rerun-if-changed=build.rs");
    let merge = fs::read_to_string(MERGE).expect("the merge can be read");
    let folder = env::var("OUT_DIR").expect("cargo says where");
    let folder = Path::new(&folder);

    let (mut modules, mut entries) = (String::new(), String::new());
    for Variant { name, lacks, changes } in VARIANTS {
        let file = folder.join(format!("{name}.rs"));
        fs::write(&file, changed(&merge, name, changes)).expect("the folder can be written to");
        writeln!(modules, "#[path = {:?}]\nmod {name};", file.display().to_string()).expect("it is a string");
        writeln!(
            entries,
            "    Variant {{ lacks: {lacks:?}, first_failure: first_failure::<{name}::Merge<Child>> }},"
        )
        .expect("it is a string");
    }
    let table =
        format!("{modules}\nmerged!({});\n\npub(crate) const VARIANTS: &[Variant] = &[\n{entries}];\n", {
            VARIANTS.iter().map(|variant| variant.name).collect::<Vec<_>>().join(", ")
        });
    fs::write(folder.join("variants.rs"), table).expect("the folder can be written to");
}

/// The merge with the changes, each of which fits in one place.
fn changed(merge: &str, name: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(merge.to_owned(), |text, (from, to)| {
        let times = text.matches(from).count();
        assert_eq!(times, 1, "{name}: this must stand once in {MERGE}; adapt the variant to it:\n{from}");
        text.replace(from, to)
    })
}
