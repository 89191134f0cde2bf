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

/// A stream that gave an item goes to the end of the line.
const GAVE_AN_ITEM: &str = "if this.line.len() > 1 {
                            this.line.rotate_left(1);
                        }";

const VARIANTS: &[Variant] = &[
    Variant {
        name: "leaves_the_reader_asleep",
        lacks: "a stream that is woken wakes no reader",
        changes: &[(
            "self.woken.push(self.ticket);\n            self.woken.reader.wake();",
            "self.woken.push(self.ticket);",
        )],
    },
    Variant {
        name: "wakes_the_reader_first",
        lacks: "the reader is woken before the stream is noted",
        changes: &[(
            "self.woken.push(self.ticket);\n            self.woken.reader.wake();",
            "self.woken.reader.wake();\n            self.woken.push(self.ticket);",
        )],
    },
    Variant {
        name: "registers_late",
        lacks: "nobody looks again after the reader was registered",
        changes: &[(
            "this.is_registered = true;
                this.take_woken();",
            "this.is_registered = true;",
        )],
    },
    Variant {
        name: "registers_nobody",
        lacks: "the reader is not registered",
        changes: &[("this.woken.reader.register(cx.waker());", "")],
    },
    Variant {
        name: "forgets_who_registered_meanwhile",
        lacks: "the reader that waits is forgotten when it is about to wait",
        changes: &[(
            "this.is_registered = true;
                this.take_woken();",
            "this.take_woken();
                drop(this.woken.reader.take());",
        )],
    },
    Variant {
        name: "says_that_there_are_any_first",
        lacks: "a stream is noted after it was said that there are any",
        changes: &[
            ("self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push_back(ticket);", ""),
            (
                "self.any.store(true, Ordering::Release);",
                "self.any.store(true, Ordering::Release);
                self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push_back(ticket);",
            ),
        ],
    },
    Variant {
        name: "says_that_there_are_none_last",
        lacks: "it is said that there are none after those there are were taken",
        changes: &[
            (
                "if !self.woken.any.swap(false, Ordering::AcqRel) {
            return;
        }",
                "",
            ),
            (
                "line.push_back(ticket);
            }
        }
    }",
                "line.push_back(ticket);
            }
        }
        self.woken.any.swap(false, Ordering::AcqRel);
    }",
            ),
        ],
    },
    Variant {
        name: "clears_the_mark_late",
        lacks: "the mark is taken away after the poll instead of before",
        changes: &[
            ("child.state.is_woken.swap(false, Ordering::AcqRel);\n", "\n"),
            (
                "child.is_in_line = false;\n                        this.line.pop_front();",
                "child.state.is_woken.swap(false, Ordering::AcqRel);
                        child.is_in_line = false;
                        this.line.pop_front();",
            ),
        ],
    },
    Variant {
        name: "clears_the_mark_blindly",
        lacks: "the mark is taken away by a store, which sees nothing",
        changes: &[(
            "child.state.is_woken.swap(false, Ordering::AcqRel);\n",
            "child.state.is_woken.store(false, Ordering::Release);\n",
        )],
    },
    Variant {
        name: "marks_without_release",
        lacks: "whoever finds the mark shows nothing of what he did before",
        changes: &[(
            "if !self.is_woken.swap(true, Ordering::AcqRel) {",
            "if !self.is_woken.swap(true, Ordering::Acquire) {",
        )],
    },
    Variant {
        name: "queues_no_new_stream",
        lacks: "a stream that is pushed does not stand in the line",
        changes: &[(
            "self.line.push_back(ticket);\n        self.woken.reader.wake();",
            "self.woken.reader.wake();",
        )],
    },
    Variant {
        name: "tells_no_reader_of_a_new_stream",
        lacks: "a stream that is pushed wakes no reader",
        changes: &[(
            "self.line.push_back(ticket);\n        self.woken.reader.wake();",
            "self.line.push_back(ticket);",
        )],
    },
    Variant {
        name: "forgets_who_gave_an_item",
        lacks: "a stream that gave an item does not return to the line",
        changes: &[(
            GAVE_AN_ITEM,
            "child.is_in_line = false;\n                        this.line.pop_front();",
        )],
    },
    Variant {
        name: "believes_who_gave_an_item_in_the_line",
        lacks: "a stream that gave an item is taken to stand in the line and does not",
        changes: &[(GAVE_AN_ITEM, "this.line.pop_front();")],
    },
    Variant {
        name: "believes_who_was_polled_in_the_line",
        lacks: "a stream that was polled is taken to stand in the line still",
        changes: &[(
            "child.is_in_line = false;\n                        this.line.pop_front();",
            "this.line.pop_front();",
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
