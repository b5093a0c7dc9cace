/* SPDX-License-Identifier: MIT
 *
 * Finds timer interrupts that QEMU loses. Appended to malta-time.c by build.sh.
 *
 * QEMU sets the interrupt's bit in CP0 Cause from one thread while the guest's
 * exceptions rewrite that register in another, without a lock: now and then,
 * about once a minute on a busy host, the bit is gone. Nobody sets it again
 * before Count has come round, so that the guest sleeps for 25 s. The same may
 * hit IP2, the interrupt controller's.
 *
 * Malta's PIT, which is not used otherwise, ticks 18 times a second. A tick has
 * the controller raise its line again, and looks whether an event is due that
 * no interrupt is pending for.
 */
#include <linux/io.h>
#include <asm/cevt-r4k.h>

static irqreturn_t lost_timer_tick(int irq, void *dev_id)
{
	if (!(read_c0_cause() & CAUSEF_IP7) &&
	    (int)(read_c0_count() - read_c0_compare()) >= 0)
		c0_compare_interrupt(irq, dev_id);
	return IRQ_HANDLED;
}

static int __init lost_timer_init(void)
{
	raw_spin_lock_irq(&i8253_lock);
	outb_p(0x34, PIT_MODE); /* counter 0, periodic, both bytes: */
	outb_p(0, PIT_CH0);     /* 65536 of 1193182 Hz */
	outb_p(0, PIT_CH0);
	raw_spin_unlock_irq(&i8253_lock);
	return request_irq(0, lost_timer_tick, IRQF_NOBALANCING | IRQF_TIMER,
			   "lost-timer", NULL);
}
device_initcall(lost_timer_init);
