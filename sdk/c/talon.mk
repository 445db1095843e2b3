# Rules for policies in C. In the Makefile of a policy:
#
#	TALON ?= path/to/talon
#	include $(TALON)/sdk/c/talon.mk
#
# Then make NAME.wasm compiles NAME.c, with manifest.json from the same folder.
# clang and wasm-ld must be there: on Debian, apt install clang lld.

TALON_C      := $(dir $(lastword $(MAKEFILE_LIST)))
TALON_CC     ?= clang
TALON_CFLAGS  = --target=wasm32 -std=c11 -Os -Wall -Wextra -ffreestanding -nostdlib -mbulk-memory \
	-Wl,--no-entry -Wl,--stack-first -Wl,--strip-all -I $(TALON_C) -I .

%.wasm: %.c manifest.json $(TALON_C)talon.h
	$(TALON_CC) $(TALON_CFLAGS) $(CFLAGS) -o $@ $<
