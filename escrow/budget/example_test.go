package budget_test

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
)

// A tenant may use 1,000 tokens a day. A call holds its estimate, and is settled with what it took.
func ExampleCap() {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	day := budget.NewCap(1_000, budget.Day, time.UTC)

	hold, answer := day.Hold(now, 800)
	fmt.Println("first call:", answer.OK, "- left:", answer.Remaining)

	_, answer = day.Hold(now, 500)
	fmt.Println("second call:", answer.OK, "- retry at:", answer.RetryAt)

	day.Settle(now, hold, 300) // the first call took less than it held
	_, answer = day.Hold(now, 500)
	fmt.Println("second call again:", answer.OK, "- left:", answer.Remaining)
	// Output:
	// first call: true - left: 200
	// second call: false - retry at: 2026-03-03 00:00:00 +0000 UTC
	// second call again: true - left: 200
}

// Two teams share 2,400 tokens a day by equal weights. Search uses its half in the first minute. Research makes no call,
// so the part of its share that it lets pass becomes available to search, hour by hour.
func ExampleSplit() {
	midnight := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	noon := midnight.Add(12 * time.Hour)
	day := budget.NewSplit(budget.Config{Limit: 2_400, Period: budget.Day})
	search := day.Add(midnight, "search", 1)
	research := day.Add(midnight, "research", 1)

	hold, answer := day.Hold(midnight, search, 1_200)
	fmt.Println("its share:", answer.OK)
	day.Settle(midnight, hold, 1_200)

	_, answer = day.Hold(midnight, search, 600)
	fmt.Println("more at midnight:", answer.OK, "- retry at:", answer.RetryAt.Format("15:04"))

	_, answer = day.Hold(noon, search, 600)
	fmt.Println("more at noon:", answer.OK)
	fmt.Println("left for research:", day.Room(noon, research))
	// Output:
	// its share: true
	// more at midnight: false - retry at: 12:00
	// more at noon: true
	// left for research: 600
}
