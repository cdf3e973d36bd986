// Package adminview is what the admin side sees of whatever admits calls: the policy in force, counts, explanations,
// whether it lives. It implements admin.Gateway for a governor without a gateway; a gateway adds its upstreams.
package adminview
