// Package lengths learns how long calls get, while they run.
//
// # Problem
//
// A call says how much it may take at most, and takes a tenth of it. Who books
// the most leaves half of a provider's capacity unused; who books the mean of
// what ended so far books too little, most of all at the start, for short calls
// end first: when the first twenty have ended, the long ones still run, and are
// not in the mean.
//
// # Picture
//
// Lengths are cut into bins, eight for each doubling. A call counts in every bin
// that it enters, and as ended in the one where it ends:
//
//	          0 … 64    … 128   … 256   … 512   …      most
//	call 1    ├──────────────●                          ended, 150
//	call 2    ├──────────────────────────▷              runs, 400 so far
//	call 3    ├────────✂                                cut off, 100
//	seen         3       3      2       1      0
//	ended        0       0      1       0      0
//	hazard       0       0      ½       0      0        ended / seen
//
// A hazard is the chance that a call which came to a bin ends there. From the
// last bin down, with v the mean length of those that ended in it:
//
//	mean = hazard·v + (1-hazard)·mean of the next         (after the last: most)
//
// is what a call that entered the bin will be long. The first bin's mean is what
// a call is booked at when it begins; that of the bin it has come to, when it
// runs. A call that runs is in seen and not in ended, so what is still running
// weighs against what has ended, and the start is not taken for the whole.
//
// This is the estimator of Kaplan and Meier (1958) in bins. As in a life table, a
// call that is in a bin, or was cut off there, had half of it to end in.
//
// # Rules
//
//   - Unit: any, so long as it is the same for one kind (tokens, milliseconds).
//     Inputs and results are whole; between them is float64, since this is
//     a guess, and no ledger counts by it.
//   - 0 ≤ Expect ≤ most. produced ≤ Reach ≤ max(most, produced), and Reach never
//     falls while nothing new is learned. Both round up.
//   - Before Enough completions (20) of a tenant's calls, or its tier's, or the
//     model's, the answer is most.
//   - Unknown calls are thought long: a model begins with one call that never
//     ends. What a tenant has not shown is taken from its tier, and that from the
//     model: each hazard is drawn to the one above as if one call had been seen
//     there (the beta process of Hjort 1990).
//   - What ended 693 ends ago counts half. A call is forgotten bin by bin as it
//     entered them, and a bin's seen and ended in step, so that forgetting shortens
//     no estimate. While more than 693 run, memory is as long as they are many;
//     with a shorter one, 3000 at once were expected 4 to 7 % too long.
//   - When 32 completions contradict the hazards (log-rank test, Mantel 1966)
//     seven eighths are forgotten at once. Ten times longer calls are then
//     expected within 20 % after some 100 completions instead of 1450, ten times
//     shorter ones after 600 instead of more than 3000. Where hundreds run at
//     once, it takes as many completions as two or three times those.
//   - Memory is bounded by MaxKinds, whatever names come. Kinds that never had
//     Enough are forgotten before those that had; those with calls running never.
//     Where there is no place a call learns and asks one level up.
//   - Nothing is safe for concurrent use; nothing allocates once a kind is known.
//
// # What it is not
//
// It knows nothing of a call but its kind: no prompt, no model of what is said in
// it. It gives no bound: half of the calls are longer than their median, and it is
// the ledger that holds when many are. A tenant with a law of its own is at first
// taken for one of its tier; and a tier, or a model, is what most of its calls are.
// How long the longest calls get is not known before some have got there, which
// takes as long as they take: until then they are thought to go on to their most.
//
// # Further reading
//
// Kaplan and Meier, "Nonparametric estimation from incomplete observations"
// (1958). Mantel, "Evaluation of survival data and two new rank order statistics"
// (1966). Hjort, "Nonparametric Bayes estimators based on beta processes in
// models for life history data" (1990).
//
// # Stability
//
// Experimental: any release may change it.
package lengths
