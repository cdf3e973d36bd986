// Package console is the live page of the admin side: files for a browser, built into the
// program. There is no build step: the page is ES modules as they are written, one style
// sheet in parts, and the chart library of package htmlpage. It needs no network but the
// admin listener that it came from.
//
//	main.js      routes, keys, the frame around the views
//	feed.js      polls the snapshot, and follows the events
//	api.js       asks the admin API, with its token
//	state.js     what is known, and when to draw
//	dom.js       elements from trees, changed in place
//	table.js     long tables, of which only what is in sight is there
//	strip.js     what is wrong now, on every page
//	series.js    the past hour and the seconds since, for charts
//	chart.js     charts over time
//	colours.js   a colour for each tenant
//	names.js     names cut in their middle
//	events.js    decisions as rows
//	parts.js     what several views show: bars, badges, links
//	views/       one file for each view
//
// All that comes from outside (names of tenants above all) becomes text nodes; nothing is
// ever parsed as HTML, and the policy in the header would let no such script run. The
// page itself is no secret, so it needs no token; all that it shows does. It keeps the
// token in the session's storage, and sends it as a bearer.
//
// The browser's tests are in browser/, run by run.sh.
package console
