// Package program runs a program of the operator's choice that decides about
// events: a plugin of strfry. It reads a line of JSON for each event, and answers
// with one.
//
// Invariants:
//
//  1. A decision ends within its time, whatever the program does, and the program
//     gets no second line before it has answered the first.
//  2. A process that did not answer as it should is killed with all of its group,
//     and none of what it says counts any more. So an answer is for the event that
//     was asked about.
//  3. What is read of a program is bounded: the length of an answer, and the lines
//     of its standard error that are logged.
//  4. After [Program.Close] no process of a group that was started is left.
//
// The program runs with the rights of whoever runs it, and can do all that these
// allow. Nothing here makes it less dangerous. It does not run in a shell, and does
// not see the environment, but for PATH, LANG and TZ.
package program
