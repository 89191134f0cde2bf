//! Seeds: each gives the same run each time, and the first few pass every check.

use anabranch_simulate::{catch_panics, check, plan::generate, run};

#[test]
fn a_seed_gives_the_same_lines_each_time() {
    catch_panics();
    let mut many = 0;
    for seed in 0..400 {
        let plan = generate(seed);
        let (once, again) = (run(&plan).lines(), run(&plan).lines());
        let same = once.iter().zip(&again).take_while(|(once, again)| once == again).count();
        assert!(once == again, "seed {seed}: line {same} differs");
        many += usize::from(plan.prompts.len() > 1);
    }
    assert!(many > 50, "{many} of the conversations had several prompts");
}

#[test]
fn the_first_seeds_pass_every_check() {
    catch_panics();
    for seed in 0..300 {
        let plan = generate(seed);
        if let Err(failure) = check(&plan, &run(&plan)) {
            panic!("seed {seed}: {failure}");
        }
    }
}
