//! What happens to a merge, in every order that the checker finds.

use std::sync::Arc;

use loom::{sync::Mutex, thread};

use crate::{
    Merged,
    children::{Number, Restless},
    reader::Reader,
};

/// Something that happens.
pub(crate) struct Scenario<M> {
    pub(crate) name: &'static str,
    /// How often threads may be interrupted in one schedule, where taking every schedule would take too long. Errors of
    /// this kind need one or two.
    pub(crate) interruptions: Option<usize>,
    pub(crate) run: fn(M),
}

/// All of them, for one kind of merge.
pub(crate) fn all<M: Merged>() -> Vec<Scenario<M>> {
    let whole = |name, run| Scenario { name, interruptions: None, run };
    let bounded = |name, interruptions, run| Scenario { name, interruptions: Some(interruptions), run };
    vec![
        whole("woken while the merge is polled", woken_while_polled),
        whole("woken while it stands in the line", woken_while_in_the_line),
        bounded("woken again and again", 5, woken_again),
        bounded("woken by two threads at once", 4, woken_by_two),
        whole("pushed while the reader sleeps", pushed),
        bounded("late wake-ups of one that ended", 4, late_wake_ups),
        bounded("wakes itself", 5, wakes_itself),
        bounded("two, woken by two threads at once", 4, two),
        whole("the reader moves to another task", another_reader),
    ]
}

/// A merge of one stream that was polled.
fn polled<M: Merged>(merge: &mut M, number: &Arc<Number>, reader: &Reader) {
    merge.push(number.stream());
    assert!(reader.poll(merge).is_pending());
}

fn woken_while_polled<M: Merged>(mut merge: M) {
    let (reader, number) = (Reader::new(), Number::up_to(1));
    polled(&mut merge, &number, &reader);
    let raised = thread::spawn(move || number.raise_to(1));
    assert_eq!(reader.all(&mut merge), [1]);
    raised.join().unwrap();
}

fn woken_while_in_the_line<M: Merged>(mut merge: M) {
    let (reader, number) = (Reader::new(), Number::up_to(1));
    polled(&mut merge, &number, &reader);
    // From here it is marked, so the other thread's wake-up is left to the poll that is due.
    number.wake();
    let raised = thread::spawn(move || number.raise_to(1));
    assert_eq!(reader.all(&mut merge), [1]);
    raised.join().unwrap();
}

fn woken_again<M: Merged>(mut merge: M) {
    let (reader, number) = (Reader::new(), Number::up_to(2));
    polled(&mut merge, &number, &reader);
    let raised = thread::spawn(move || {
        number.raise_to(1);
        number.raise_to(2);
    });
    let numbers = reader.all(&mut merge);
    assert!(numbers == [1, 2] || numbers == [2], "{numbers:?}");
    raised.join().unwrap();
}

fn woken_by_two<M: Merged>(mut merge: M) {
    let (reader, number) = (Reader::new(), Number::up_to(2));
    polled(&mut merge, &number, &reader);
    let threads = [(); 2].map(|()| {
        let number = Arc::clone(&number);
        thread::spawn(move || number.raise())
    });
    let numbers = reader.all(&mut merge);
    assert!(numbers == [1, 2] || numbers == [2], "{numbers:?}");
    for thread in threads {
        thread.join().unwrap();
    }
}

fn pushed<M: Merged>(mut merge: M) {
    let (reader, idle) = (Reader::new(), Number::up_to(1));
    polled(&mut merge, &idle, &reader);
    let merge = Arc::new(Mutex::new(merge));
    let pushing = {
        let merge = Arc::clone(&merge);
        thread::spawn(move || merge.lock().unwrap().push(Restless::stream(0, 2)))
    };
    loop {
        let poll = reader.poll(&mut *merge.lock().unwrap());
        match poll {
            std::task::Poll::Ready(item) => break assert_eq!(item, Some(2)),
            std::task::Poll::Pending => reader.sleep(),
        }
    }
    pushing.join().unwrap();
}

fn late_wake_ups<M: Merged>(mut merge: M) {
    let (reader, old, new, idle) = (Reader::new(), Number::up_to(1), Number::up_to(1), Number::up_to(1));
    polled(&mut merge, &old, &reader);
    polled(&mut merge, &idle, &reader);
    let late = {
        let old = Arc::clone(&old);
        // Before, at and after its end.
        thread::spawn(move || {
            old.raise_to(1);
            old.wake();
        })
    };
    assert_eq!(reader.next(&mut merge), Some(1));
    // It ends now, and the new one takes its place.
    assert!(reader.poll(&mut merge).is_pending());
    polled(&mut merge, &new, &reader);
    late.join().unwrap();
    assert!(reader.poll(&mut merge).is_pending());
    assert_eq!((new.polls(), idle.polls()), (1, 1), "nobody woke them");
    let raised = thread::spawn(move || new.raise_to(1));
    assert_eq!(reader.next(&mut merge), Some(1));
    raised.join().unwrap();
}

fn wakes_itself<M: Merged>(mut merge: M) {
    let (reader, number) = (Reader::new(), Number::up_to(1));
    polled(&mut merge, &number, &reader);
    merge.push(Restless::stream(2, 10));
    let raised = thread::spawn(move || number.raise_to(1));
    let mut items = reader.all(&mut merge);
    items.sort_unstable();
    assert_eq!(items, [1, 10]);
    raised.join().unwrap();
}

fn two<M: Merged>(mut merge: M) {
    let (reader, one, ten) = (Reader::new(), Number::up_to(1), Number::up_to(10));
    polled(&mut merge, &one, &reader);
    polled(&mut merge, &ten, &reader);
    let threads = [thread::spawn(move || one.raise_to(1)), thread::spawn(move || ten.raise_to(10))];
    let mut items = reader.all(&mut merge);
    items.sort_unstable();
    assert_eq!(items, [1, 10]);
    for thread in threads {
        thread.join().unwrap();
    }
}

fn another_reader<M: Merged>(mut merge: M) {
    let (first, second, number) = (Reader::new(), Reader::new(), Number::up_to(1));
    polled(&mut merge, &number, &first);
    let raised = thread::spawn(move || number.raise_to(1));
    // The first never polls again, so a wake-up of it helps nobody.
    assert_eq!(second.all(&mut merge), [1]);
    raised.join().unwrap();
}
