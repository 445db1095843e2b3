// Package report shows runs of the lab: as a table on a terminal, and as a page of HTML
// in one file.
//
// Invariants:
//
//  1. The page needs no network: plots are drawn by uPlot, which is in the file with its
//     licence. A policy in the page (CSP) keeps every other script from running.
//  2. Names of modules and relays, and what they say, are data: they are escaped wherever
//     they stand.
//  3. What a plot shows stands in a table as well.
//  4. The size of a page does not grow with the runs beyond what a person can read: how
//     many relays, points and sequences were left out stands where they are missing.
package report
