// Package queued has the commands of the queue of jobs: up, down, submit and jobs.
package queued
