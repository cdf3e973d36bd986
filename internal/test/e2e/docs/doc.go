// Package docs holds the pages and files of the folder docs to the program: links lead, recipes can be followed, what is
// shown is what is printed, and deployments agree with their configs.
package docs
