// Package console is the live page of the admin side: files for a browser, built into the
// program. There is no build step: the page is ES modules as they are written, one style
// sheet in parts, and the chart library of package htmlpage. It needs no network but the
// admin listener that it came from.
//
//	main.js      routes, keys, the frame around the views
//	feed.js      polls the snapshot, and follows the events
//	api.js       asks the admin API, with its token
//	state.js     the data, and the times to draw
//	dom.js       elements from trees, changed in place
//	table.js     long tables, of which only visible rows exist
//	strip.js     current problems, on every page
//	series.js    the past hour and the seconds since, for charts
//	chart.js     charts over time
//	colours.js   a colour for each tenant
//	names.js     names cut in their middle
//	events.js    decisions as rows
//	parts.js     parts of several views: bars, badges, links
//	views/       one file for each view
//
// Data from outside, such as names of tenants, become text nodes; nothing is ever parsed as
// HTML, and the policy in the header would block such scripts. The page itself is no secret,
// so it needs no token; its data do. It keeps the token in the session's storage, and sends it
// as a bearer token.
//
// The browser's tests are in browser/, run by run.sh.
package console
