#!/bin/sh
# Prints a net price (in cents) with 20 % tax.
net=$1
tax=$((net * 2 / 100))
echo $((net + tax))
