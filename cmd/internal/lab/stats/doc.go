// Package stats compares variants of the lab, paired by seed: both ran in the same world
// with the same weather, so that what differs between them is theirs.
//
// For each measure there is an estimate (the change of the mean), its 95 % confidence
// interval by the studentized bootstrap over seeds, and the exact sign test, whose
// p-values Holm's method corrects for the number of statements that are made together. A
// change is called one only if the corrected sign test and the interval agree on it.
//
// Invariants:
//
//  1. The same runs give the same figures: the bootstrap draws from a fixed seed.
//  2. Only pairs count: a seed that one of the two did not finish is left out, and
//     counted as left out.
//  3. A set of identical variants is called different with a probability of at most
//     5 %, whatever the distribution and the number of measures.
package stats
