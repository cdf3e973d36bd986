package top

import "strings"

// helpText fits 80 columns and 19 lines: the smallest terminal that is supported.
const helpText = `tab, right, left  next view, previous view  /  filter; esc removes it
j k, down up      next row, previous row    s  next order
pgdn pgup, g G    by a page, to the ends    p  pause, resume
enter, esc        open the selected row,    q  quit
                  and go back

Shares are parts of the pool's last minute.
  ENTITLED  a tenant's part by weight, given the demand of all
  RECEIVED  the part it received. Its bar has a mark at the entitled part; the
            longest bar in the pool is full
  DEBT      tokens that it received before its turn
  BORROW    tokens beyond its weight's part, LENT those it left to others,
            since the gateway started
  JAIN      1 is fair to all; OFF how far off the worst off is
  MINUTE    the rolling minute: of tokens or requests, the fuller one
  SERVER    of the server with most to do, what its metrics tell: calls that
            wait, else the use of its KV cache; stale: they are not read
  RATE      the part of the rate that is in use; held: an upstream asked for
            a pause
Columns that do not fit are left out. Enlarge the window to see more.`

func helpLines() []string { return strings.Split(helpText, "\n") }
