// Package result defines the results of a run of the lab, and their formats as JSON lines
// and CSV. docs/reference-lab-results.md is made from the types.
//
// Invariants:
//
//  1. A line stands alone: it names the scenario, the modules, the seed and the version
//     of its form, and is read without any other line.
//  2. Equal runs are equal bytes: keys have a fixed order, numbers one form, and there
//     is no wall-clock time, path or host name in a run.
//  3. A reader takes lines of its own version with fields that it does not know, and
//     refuses other versions by name. A line that is cut off, or too long, is an error
//     with the line's number, after all lines before it.
//  4. Writing and reading hold one run at a time.
package result
