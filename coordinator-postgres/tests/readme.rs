//! The README shows the example that is compiled.

#[test]
fn the_quick_start_of_the_readme_is_the_compiled_example() {
    let read = |path: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let (readme, example) = (read("../README.md"), read("examples/quick_start.rs"));
    let code = example.split_once("\n\n").expect("a comment, then the code").1;
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md and examples/quick_start.rs differ");
    assert!(code.lines().count() <= 16, "a quick start is short");
}
