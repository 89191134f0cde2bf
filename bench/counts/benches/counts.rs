//! The cases of [`anabranch_bench::counted`], each at two numbers of items. `cargo xtask counts` runs them, takes the
//! difference and compares it.

use anabranch_bench::counted::{self, Work};
use gungraun::{library_benchmark, library_benchmark_group, main};

macro_rules! cases {
    ($($case:ident, $few:literal, $many:literal;)*) => {
        $(
            #[library_benchmark]
            #[bench::few(args = ($few), setup = counted::$case)]
            #[bench::many(args = ($many), setup = counted::$case)]
            fn $case(work: Work) {
                work();
            }
        )*
        library_benchmark_group!(name = cases, benchmarks = [$($case),*]);
    };
}

cases! {
    made, 1_000, 6_000;
    taken, 1_000, 6_000;
    passed_at_1, 1_000, 6_000;
    passed_at_5, 1_000, 6_000;
    merged_ready, 1_000, 6_000;
    merged_woken, 1_000, 6_000;
    processed, 1_000, 6_000;
    accumulated, 1_000, 6_000;
    encoded_native, 1_000, 6_000;
    encoded_agentscope, 1_000, 6_000;
    encoded_ag_ui, 1_000, 6_000;
    encoded_acp, 1_000, 6_000;
    encoded_tool_calls, 1_000, 6_000;
    encoded_text, 1_000, 6_000;
    native_read, 1_000, 6_000;
    native_written, 1_000, 6_000;
    in_session, 1_000, 6_000;
    in_session_at_5, 1_000, 6_000;
    spawned, 64, 564;
}

main!(library_benchmark_groups = cases);
