package top

import "strings"

// helpText fits 80 columns and 19 lines: the smallest terminal that is promised.
const helpText = `tab, right, left  next view, view before    /  filter; esc takes it off
j k, down up      next row, row before      s  next order
pgdn pgup, g G    by a page, to the ends    p  hold the picture, go on
enter, esc        open what is selected,    q  quit
                  and go back

Shares are parts of the pool's last minute.
  ENTITLED  what a tenant was due by weight, given what all asked for
  RECEIVED  what it had. The bar is this, its mark the entitled; the longest
            in the pool fills it
  DEBT      tokens that it had before its turn
  BORROW    tokens beyond its weight's part, LENT those it left to others,
            since the gateway began
  JAIN      1 is fair to all; OFF how far off the worst off is
  MINUTE    the rolling minute: of tokens or requests, the fuller one
  RATE      the part of the rate that is handed out; held: an upstream asked
            for a pause
Columns that do not fit are left out. Enlarge the window to see more.`

func helpLines() []string { return strings.Split(helpText, "\n") }
