// Package audience says who receives each event, and keeps the answers up to date.
//
// Modules answer for the events that their manifests name. An event of a repository that is not
// for everybody also inherits the audience of the repository: [Audiences.Audience] combines both,
// and the strictest counts. The pipeline asks when it accepts an event, and stores the answer with
// it.
//
// When the modules or their settings change, [Audiences.Run] asks again about all stored events,
// while nothing else changes what clients receive. Then it writes the answers that are new, those
// that narrow an audience first.
//
// Invariants:
//
//  1. An event about which no answer could be had is withheld from everybody.
//  2. An event belongs to the repositories that it names, or that events which it names belong
//     to. A state or an announcement belongs to the repository of its identifier whose owner is
//     its author or lists its author.
//  3. Without a module that decides, and without restricted repositories, an event costs two
//     atomic reads.
package audience
